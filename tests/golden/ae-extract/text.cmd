ae-extract -s text
