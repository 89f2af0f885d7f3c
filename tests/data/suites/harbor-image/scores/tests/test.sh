#!/bin/bash

lines=$(wc -l < /app/lines.txt); echo "{\"exists\": 1.0, \"lines\": $([ "$lines" = 2 ] && echo 1.0 || echo 0.5)}" > /logs/verifier/reward.json
