"""Work on several items in one thread, which goes on with one while the processes of others run."""
