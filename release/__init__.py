"""What the build of a wheel writes: executables and man pages."""
