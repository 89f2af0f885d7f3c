cat > grader.sh <<'END'
#!/bin/sh
read -r record
case $record in *'"tags":["mine"]'*) echo '{"pass":true,"score":1,"reasoning":"tagged"}' ;; *) echo '{"pass":false,"score":0}' ;; esac
END
chmod +x grader.sh
ae-grade -g grader.sh
