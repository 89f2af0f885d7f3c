#!/bin/bash

ls /app | wc -l > /app/count.txt
