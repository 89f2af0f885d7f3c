case "$1" in
*France*) echo "The capital of France is Paris." ;;
*Italy*) echo "The capital of Italy is Rome." ;;
*Spain*) echo "I do not know." ;;
*"Say yes"*) echo "yes" ;;
*"Say no"*) echo "no" ;;
*"JSON with"*) echo 'Here: {"city": "Paris"} and more' ;;
*JSON*) echo '{"city": "Paris"}' ;;
esac
