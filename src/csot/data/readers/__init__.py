"""What a user has on disk, read and checked."""
