ae-calibrate
