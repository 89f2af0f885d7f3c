from pathlib import Path

assert Path("/app/hello.txt").read_text().strip() == "Hello, world!"
