if command -v systemd-sysusers >/dev/null 2>&1; then
    systemd-sysusers hugewise.conf || :
fi
if command -v systemd-tmpfiles >/dev/null 2>&1; then
    systemd-tmpfiles --create hugewise.conf || :
fi
if [ -d /run/systemd/system ]; then
    systemctl daemon-reload || :
    # What runs goes on with the new program; what does not run stays so.
    if [ "$1" -gt 1 ]; then
        systemctl try-restart hugewise-serve.service hugewise-record.service || :
    fi
fi
