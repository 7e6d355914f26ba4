if [ "$1" -eq 0 ]; then
    if [ -d /run/systemd/system ]; then
        systemctl disable --now hugewise-serve.service hugewise-record.service hugewise-capture.timer || :
    fi
    if [ -n "$(ls -A /var/lib/hugewise 2>/dev/null)" ]; then
        echo 'hugewise: the changes it made stay, and so do its journals in /var/lib/hugewise: install it again to undo them.'
    fi
fi
