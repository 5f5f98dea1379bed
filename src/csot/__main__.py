"""`python -m csot` is the command `csot`."""

from csot.cli.app import app

if __name__ == "__main__":
    app(prog_name="csot")
