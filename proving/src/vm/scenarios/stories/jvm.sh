# A Java heap on transparent huge pages grows into the limit of its cgroup.
arrange() {
    echo always >/sys/kernel/mm/transparent_hugepage/enabled
    mkdir -p /opt/app
    cat >/opt/app/Grow.java <<'end'
import java.util.ArrayList;
public class Grow {
    public static void main(String[] words) throws Exception {
        ArrayList<byte[]> kept = new ArrayList<>();
        int until = Integer.parseInt(words[0]);
        for (int mib = 0; mib < until; mib++) {
            kept.add(new byte[1 << 20]);
            if (mib > 100) Thread.sleep(200);
            else if (mib == 100) Thread.sleep(60000);
        }
        Thread.sleep(600000);
    }
}
end
    javac -d /opt/app /opt/app/Grow.java
    cat >/etc/systemd/system/app.service <<'end'
[Unit]
Description=An application
[Service]
MemoryMax=512M
MemorySwapMax=0
Environment=TZ=UTC
ExecStart=/usr/bin/java -Xms64m -Xmx600m -XX:+UseG1GC -Xlog:gc*,pagesize,safepoint:file=/var/log/app-gc.log:time,uptime,level,tags -cp /opt/app Grow 560
end
    systemctl daemon-reload
    systemctl start app
    sleep 20
    memory >>$kept/notes
}

memory() {
    grep -E '^(VmRSS|RssAnon|VmPTE)' /proc/$(pgrep -f 'opt/app' | head -1)/status
    cat /sys/fs/cgroup/system.slice/app.service/memory.{current,max,events}
    grep -E '^(AnonHugePages|MemFree|MemAvailable)' /proc/meminfo
}

happens() {
    for second in $(seq 300); do
        systemctl is-active --quiet app || break
        sleep 1
        ((second % 20 == 0)) && { note "grows"; memory >>$kept/notes 2>/dev/null; }
    done
    note "app is $(systemctl is-active app): $(systemctl show app --property Result --value)"
    sleep 20
    journalctl -u app --no-pager -o short-iso >$kept/journal.log
    cp /var/log/app-gc.log $kept/gc.log
}
