ae-score --criteria minimum --meta ground_truth_file=ground_truth.json | grep -v timestamp; true
