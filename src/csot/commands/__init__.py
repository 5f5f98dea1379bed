"""What the commands do, between the parsed options and the printed lines."""
