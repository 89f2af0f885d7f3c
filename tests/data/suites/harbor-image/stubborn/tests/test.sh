#!/bin/bash

if grep -qx 3 /app/count.txt; then echo 1; else echo 0; fi > /logs/verifier/reward.txt
