#!/bin/bash

printf "a\nb\n" > /app/lines.txt
