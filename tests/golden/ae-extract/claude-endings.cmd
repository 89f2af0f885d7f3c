ae-extract -s claude
