"""What tests share: running tools, watching processes, a scripted model server."""
