ae-schemas GraderResult --json
