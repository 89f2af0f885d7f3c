ae-score -f table --min hit_rate=0.5
