ae-balance
