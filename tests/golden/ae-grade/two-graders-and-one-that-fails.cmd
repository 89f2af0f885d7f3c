cat > half.py <<'END'
def grade(record):
    if record["id"] == "fail":
        raise ValueError("cannot say")
    return {"pass": True, "score": 0.5, "reasoning": "half", "outcome": {"seen": sorted(record)}}
END
ae-grade -g ae-grader-hint -g half=half.py 2>messages; echo "exit $?"; cat messages
