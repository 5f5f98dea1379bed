"""Views of inputs: plain, weak and strong."""
