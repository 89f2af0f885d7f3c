"""What other programs recorded: files of theirs, and the secrets in them."""
