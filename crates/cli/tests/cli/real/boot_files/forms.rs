//! The forms that are tried, made up from tables: spellings of keys and paths, values, modifiers,
//! folders and names.

use super::Form;

/// Values of which the kernel and the programs make different things.
pub(crate) const VALUES: [&str; 30] = [
    "12",
    "0x10",
    "0X1f",
    "010",
    "08",
    "0",
    "00000000000000000005",
    "000000000000000000000005",
    "+5",
    "-5",
    "5k",
    "5 # pages",
    "5# pages",
    "5 ; pages",
    "5;",
    "5 6",
    "5\t6",
    "5,6",
    "5.0",
    "1e1",
    "0b1",
    "0x",
    "0xg",
    "\"5\"",
    "'5'",
    "five",
    "18446744073709551616",
    "=5",
    "5=6",
    "5\\n",
];

/// Ways to write a setting's name; `{}` is the value.
const KEYS: [&str; 32] = [
    "vm.nr_hugepages={}",
    "vm.nr_hugepages = {}",
    "  vm.nr_hugepages\t=\t{}  ",
    "vm/nr_hugepages={}",
    "/vm/nr_hugepages={}",
    "vm//nr_hugepages={}",
    "vm..nr_hugepages={}",
    ".vm.nr_hugepages={}",
    "vm/./nr_hugepages={}",
    "vm/nr_hugepages/={}",
    "vm.nr_hugepages.={}",
    "-vm.nr_hugepages={}",
    "- vm.nr_hugepages={}",
    "--vm.nr_hugepages={}",
    "-vm/nr_hugepages = {}",
    "vm.nr_hugepage?={}",
    "vm.nr_*={}",
    "-vm.nr_*={}",
    "vm.*={}",
    "*.nr_hugepages={}",
    "*/nr_hugepages={}",
    "vm.nr_hugepage[st]={}",
    "vm.nr_hugepage[!s]={}",
    "vm.nr_{hugepages,x}={}",
    "vm.nr_{hugepages,overcommit_hugepages}*={}",
    "vm.nr hugepages={}",
    "\"vm.nr_hugepages\"={}",
    "VM.nr_hugepages={}",
    "vm.nr_hugepages {}",
    "vm.nr_hugepages: {}",
    "export vm.nr_hugepages={}",
    "proc/sys/vm/nr_hugepages={}",
];

/// Whole files of sysctl.d.
const SETTINGS: [&str; 40] = [
    "vm.nr_hugepages=101\nvm.nr_hugepages=102\n",
    "vm.nr_hugepages=101\nvm/nr_hugepages=102\n",
    "vm.nr_hugepages=101\nvm.nr_hugepages=\n",
    "vm.nr_hugepages=101\nvm.nr_hugepages\n",
    "vm.nr_hugepages=101\n-vm.nr_hugepages\n",
    "-vm.nr_hugepages\nvm.nr_hugepages=101\n",
    "vm.nr_hugepages=101\nvm.nr_*=102\n",
    "vm.nr_*=101\nvm.nr_hugepages=102\n",
    "vm.nr_*=101\nvm.nr_h*=102\n",
    "vm.nr_h*=101\nvm.nr_*=102\n",
    "vm.nr_h*=101\nvm.nr_*=102\nvm.nr_h*=103\n",
    "vm.nr_h*=101\nvm.nr_*=102\nvm.nr_h*=101\n",
    "vm.nr_*=101\n-vm.nr_hugepages\n",
    "-vm.nr_hugepages\nvm.nr_*=101\n",
    "-vm.nr_*\nvm.nr_hugepages=101\n",
    "-vm.nr_*\nvm.nr_*=101\n",
    "vm.nr_*=101\n-vm.nr_*\n",
    "-vm.nr_hugepages\n-vm.nr_hugepages=101\n",
    "vm.nr_hugepages=101\nvm.nr_hugepages=102\nvm.nr_hugepages=101\n",
    "vm.nr_hugepages=101\nvm.nr_hugepages_mempolicy=102\n",
    "#vm.nr_hugepages=101\n;vm.nr_overcommit_hugepages=102\n # kernel.shmmax=103\n",
    "vm.nr_hugepages=101 # then\n#vm.nr_hugepages=102\n",
    "vm.nr_hugepages=101",
    "vm.nr_hugepages=101\r\nvm.nr_overcommit_hugepages=102\r\n",
    "vm.nr_hugepages=101\rvm.nr_overcommit_hugepages=102\r",
    "vm.nr_hugepages=101\n\r\n\rvm.nr_overcommit_hugepages=102\n\r",
    "vm.nr_hugepages=101\0vm.nr_overcommit_hugepages=102\0",
    "\u{feff}vm.nr_hugepages=101\nvm.nr_overcommit_hugepages=102\n",
    "[vm]\nvm.nr_hugepages=101\n",
    "vm.nr_hugepages=101\\\n2\n",
    "\n\n\t\nvm.nr_hugepages=101\n\n",
    "=101\nvm.nr_hugepages=102\n",
    "-\n-=\nvm.nr_hugepages=102\n",
    "vm.nr_hugepages==101\n",
    "kernel.shmmax=101\nkernel.shmall=102\nvm.hugetlb_shm_group=103\n",
    "kernel.shm*=101\n-kernel.shmall\n",
    "kernel.shm{max,all}=101\n",
    "vm.hugetlb_shm_group = -1\n",
    "vm.nr_hugepages\u{a0}=101\n",
    "vm.nr_hugepages=101\u{c}\n",
];

/// Lines of tmpfiles.d; `P` is the pool's folder of 2 MiB pages, `T` that of THP.
const LINES: [&str; 92] = [
    "w P/nr_hugepages - - - - 101",
    "w\tP/nr_hugepages\t-\t-\t-\t-\t101",
    "  w   P/nr_hugepages  -  -  -  -   101  ",
    "w! P/nr_hugepages - - - - 101",
    "w- P/nr_hugepages - - - - 101",
    "w= P/nr_hugepages - - - - 101",
    "w+ P/nr_hugepages - - - - 101",
    "w!+-= P/nr_hugepages - - - - 101",
    "w!! P/nr_hugepages - - - - 101",
    "w? P/nr_hugepages - - - - 101",
    "ww P/nr_hugepages - - - - 101",
    "W P/nr_hugepages - - - - 101",
    "w~ P/nr_hugepages - - - - MTAx",
    "w~ P/nr_hugepages - - - - MTAxCg==",
    "w~ P/nr_hugepages - - - - MT Ax",
    "w~ P/nr_hugepages - - - - 101",
    "w^ P/nr_hugepages - - - - name",
    "f P/nr_hugepages - - - - 101",
    "f! P/nr_hugepages - - - - 101",
    "f+ P/nr_hugepages - - - - 101",
    "f+! P/nr_hugepages 0644 root root - 101",
    "F P/nr_hugepages - - - - 101",
    "F+ P/nr_hugepages - - - - 101",
    "f+ P/nr_huge* - - - - 101",
    "f+ P/nr_hugepages - - - -",
    "w P/nr_hugepages - - - -",
    "w P/nr_hugepages - - - - -",
    "w P/nr_hugepages - - - 101",
    "w P/nr_hugepages 101",
    "w P/nr_hugepages",
    "w",
    "w P/nr_hugepages 0644 root root 10d 101",
    "w P/nr_hugepages 0644 0 0 - 101",
    "w P/nr_hugepages ~0644 :root :root ~1h 101",
    "w P/nr_hugepages 0999 - - - 101",
    "w P/nr_hugepages - stranger - - 101",
    "w P/nr_hugepages - - stranger - 101",
    "w P/nr_hugepages - - - soon 101",
    "w P/nr_hugepages - - - am:1d12h 101",
    "w P/nr_hugepages - - - xy:1d 101",
    "w P/nr_hugepages \"\" '' - - 101",
    "w \"P/nr_hugepages\" - - - - 101",
    "w 'P/nr_hugepages' - - - - 101",
    "w \"P/nr_hugepages - - - - 101",
    "\"w\" P/nr_hugepages - - - - 101",
    "w P/nr\\_hugepages - - - - 101",
    "w P/nr\\x5fhugepages - - - - 101",
    "w P//nr_hugepages/ - - - - 101",
    "w P/./nr_hugepages - - - - 101",
    "w P/../hugepages-2048kB/nr_hugepages - - - - 101",
    "w P/nr_huge* - - - - 101",
    "w P/nr_*pages - - - - 101",
    "w P/nr_hugepage? - - - - 101",
    "w P/nr_hugepage[a-s] - - - - 101",
    "w P/nr_hugepage[!s] - - - - 101",
    "w P/nr_hugepage[[:lower:]] - - - - 101",
    "w P/{nr_hugepages,nr_overcommit_hugepages} - - - - 101",
    "w P/nr_{hugepages,over*} - - - - 101",
    "w /sys/kernel/mm/hugepages/*/nr_hugepages - - - - 101",
    "w /s*/kernel/mm/hugepages/hugepages-*/nr_hugepages - - - - 101",
    "w /sys/kernel/*/nr_hugepages - - - - 101",
    "w P/nr_nothing - - - - 101",
    "w P - - - - 101",
    "w /sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages - - - - 101",
    "w /sys/devices/system/node/node*/hugepages/hugepages-2048kB/nr_hugepages - - - - 101",
    "w /sys/bus/node/devices/node1/hugepages/hugepages-2048kB/nr_hugepages - - - - 101",
    "w /proc/sys/vm/nr_hugepages - - - - 101",
    "w /proc/sys/vm/nr_hugepages_mempolicy - - - - 101",
    "f+ /proc/sys/vm/nr_hugepages - - - - 101",
    "w /proc/sys/kernel/shm{max,all} - - - - 101",
    "w P/nr_overcommit_hugepages - - - - 101",
    "w T/enabled - - - - never",
    "w T/defrag - - - - defer+madvise",
    "w T/hugepages-2048kB/enabled - - - - inherit",
    "w T/hugepages-*/enabled - - - - never",
    "w T/enabled - - - - never # says the vendor",
    "w P/nr_hugepages - - - - 100%",
    "w P/nr_hugepages - - - - %%",
    "w P/nr_hugepages - - - - %U%G1",
    "w P/nr_hugepages - - - - %v %H %l",
    "w P/nr_hugepages - - - - %m %b %o %w",
    "w P/nr_hugepages - - - - %a %T %V %t %S %C %L %h %u %g",
    "w P/nr_hugepages - - - - %q",
    "w P/nr_hugepages - - - - % 5",
    "w P/nr_hugepages - - - - a\\x41\\101\\n\\t\\s\\\\",
    "w P/nr_hugepages - - - - \\q",
    "w P/nr_hugepages - - - - \\x00",
    "w P/nr_hugepages - - - - \"101\"",
    "w P/nr_hugepages - - - - a\\",
    "# w P/nr_hugepages - - - - 101",
    "; w P/nr_hugepages - - - - 101",
    "w %t/../P/nr_hugepages - - - - 101",
];

/// Several lines about one file.
const SEVERAL: [&str; 26] = [
    "w P/nr_hugepages - - - - 101\nw P/nr_hugepages - - - - 102\n",
    "w P/nr_hugepages - - - - 101\nw P/nr_hugepages - - - - 101\n",
    "w P/nr_hugepages - - - - 101\nw+ P/nr_hugepages - - - - 102\n",
    "w+ P/nr_hugepages - - - - 101\nw P/nr_hugepages - - - - 102\n",
    "w+ P/nr_hugepages - - - - 101\nw+ P/nr_hugepages - - - - 102\n",
    "w+ P/nr_hugepages - - - - 101\nw+ P/nr_hugepages - - - - 102\nw P/nr_hugepages - - - - 101\n",
    "w+ P/nr_hugepages - - - - 101\nw P/nr_hugepages - - - - 101\nw+ P/nr_hugepages - - - - 103\n",
    "w P/nr_hugepages - - - - 101\nw! P/nr_hugepages - - - - 102\n",
    "w P/nr_hugepages 0644 - - - 101\nw P/nr_hugepages - - - - 101\nw P/nr_hugepages 0644 - - - \
         101\n",
    "w P/nr_hugepages - - - - 101\nw P//nr_hugepages - - - - 102\n",
    "w P/nr_hugepages - - - - 101\nw P/nr_huge* - - - - 102\n",
    "w P/nr_huge* - - - - 101\nw P/nr_hugepages - - - - 102\n",
    "w P/nr_huge* - - - - 101\nw P/nr_huge* - - - - 102\n",
    "w P/nr_huge* - - - - 101\nw P/nr_h* - - - - 102\nw P/nr_huge* - - - - 103\n",
    "w P/nr_hugepages - - - - 101\nf+ P/nr_hugepages - - - - 102\n",
    "f+ P/nr_hugepages - - - - 101\nf+ P/nr_hugepages - - - - 102\n",
    "f P/nr_hugepages - - - - 101\nf+ P/nr_hugepages - - - - 102\n",
    "F P/nr_hugepages - - - - 101\nf+ P/nr_hugepages - - - - 101\n",
    "z P/nr_hugepages 0644 - - -\nw P/nr_hugepages - - - - 101\n",
    "x P/nr_hugepages\nw P/nr_hugepages - - - - 101\n",
    "r P/none\nw P/nr_hugepages - - - - 101\n",
    "w P/nr_hugepages - - - - 101\r\nw P/nr_overcommit_hugepages - - - - 102\r\n",
    "w P/nr_hugepages - - - - 101\0w P/nr_overcommit_hugepages - - - - 102",
    "w P/nr_hugepages - - - bad 101\nw P/nr_hugepages - - - - 102\n",
    "w /sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages - - - - 101\n\
     w /sys/devices/system/node/node1/hugepages/hugepages-2048kB/nr_hugepages - - - - 102\n",
    "w /sys/bus/node/devices/node0/hugepages/hugepages-2048kB/nr_hugepages - - - - 101\n\
     w /sys/devices/system/node/node0/hugepages/hugepages-2048kB/nr_hugepages - - - - 102\n",
];

/// Where a file may lie, the strongest first.
const LAYERS: [&str; 4] = ["/etc", "/run", "/usr/local/lib", "/usr/lib"];

fn form(name: impl Into<String>, files: &[(String, String)]) -> Form {
    let files =
        files.iter().map(|(path, text)| (path.clone(), text.clone().into_bytes())).collect();
    Form { name: name.into(), files }
}

fn one(name: &str, path: &str, text: String) -> Form {
    form(name, &[(path.to_owned(), text)])
}

/// What `{}` of each folder's file says.
fn said(mechanism: &str, value: u32) -> String {
    match mechanism {
        "sysctl.d" => format!("vm.nr_hugepages = {value}\n"),
        _ => format!("w {POOL}/nr_hugepages - - - - {value}\n"),
    }
}

/// The pool of 2 MiB pages.
pub(crate) const POOL: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB";

/// Transparent huge pages.
pub(crate) const THP: &str = "/sys/kernel/mm/transparent_hugepage";

fn in_place(line: &str) -> String {
    let line = line.replace(" T/", &format!(" {THP}/"));
    let line = line.replace("%t/../P", "%t/../sys/kernel/mm/hugepages/hugepages-2048kB");
    [" ", "\t", "\"", "'"].iter().fold(line, |line, before| {
        line.replace(&format!("{before}P/"), &format!("{before}{POOL}/"))
            .replace(&format!("{before}P "), &format!("{before}{POOL} "))
    })
}

/// Two files of one name or of two, in every two folders; masks, links, folders, hidden files.
fn placed(mechanism: &str) -> Vec<Form> {
    let mut forms = Vec::new();
    let path = |layer: &str, name: &str| format!("{layer}/{mechanism}/{name}");
    for (at, strong) in LAYERS.iter().enumerate() {
        for weak in LAYERS.iter().skip(at + 1) {
            for (first, second) in
                [("50.conf", "50.conf"), ("50.conf", "60.conf"), ("60.conf", "50.conf")]
            {
                let files = [
                    (path(strong, first), said(mechanism, 101)),
                    (path(weak, second), said(mechanism, 102)),
                ];
                forms.push(form(format!("{} and {}", files[0].0, files[1].0), &files));
            }
        }
        for (what, hides) in [
            ("a link to /dev/null", "->/dev/null"),
            ("an empty file", ""),
            ("a link to nowhere", "->/nowhere"),
            ("a folder", "/"),
            ("a comment", "# nothing\n"),
        ] {
            let files = [
                (path(strong, "50.conf"), hides.to_owned()),
                (path("/usr/lib", "50.conf"), said(mechanism, 102)),
            ];
            if at < 3 {
                forms.push(form(format!("{} is {what}", files[0].0), &files));
            }
        }
    }
    let names = [
        "9.conf",
        "10.conf",
        "a.conf",
        "Z.conf",
        "_.conf",
        "50.conf",
        "50-a.conf",
        "50.a.conf",
        "zz.conf",
        "é.conf",
    ];
    for pair in names.windows(2) {
        let files = [
            (path("/etc", pair[0]), said(mechanism, 101)),
            (path("/etc", pair[1]), said(mechanism, 102)),
        ];
        forms.push(form(format!("{mechanism}: {} and {}", pair[0], pair[1]), &files));
    }
    for name in [
        ".50.conf",
        "50.conf~",
        "50.conf.bak",
        "50.CONF",
        "50",
        "50.conf.dpkg-old",
        ".conf",
        "README",
    ] {
        forms.push(one(&format!("{mechanism}: {name}"), &path("/etc", name), said(mechanism, 101)));
    }
    let linked = [
        (path("/usr/lib", "x.txt"), said(mechanism, 101)),
        (path("/etc", "50.conf"), format!("->/usr/lib/{mechanism}/x.txt")),
    ];
    forms.push(form(format!("{mechanism}: a link"), &linked));
    let latin: Vec<u8> = [b"# caf\xe9\n".as_slice(), said(mechanism, 101).as_bytes()].concat();
    forms.push(Form {
        name: format!("{mechanism}: no UTF-8"),
        files: vec![(path("/etc", "50.conf"), latin)],
    });
    let long = |bytes: usize| {
        format!("{}#{}\n{}", said(mechanism, 101), "x".repeat(bytes), said(mechanism, 102))
    };
    forms.push(one(&format!("{mechanism}: a long line"), &path("/etc", "50.conf"), long(100_000)));
    forms.push(one(
        &format!("{mechanism}: a very long line"),
        &path("/etc", "50.conf"),
        long(1 << 20),
    ));
    forms
}

/// Which files count without systemd, and in which order.
pub(crate) fn of_rc_sysinit() -> Vec<Form> {
    let conf =
        ("/etc/sysctl.conf".to_owned(), "vm.nr_hugepages=103\nvm.swappiness = 7\n".to_owned());
    let named =
        |name: &str| (format!("/etc/sysctl.d/{name}"), "vm.nr_hugepages = 101\n".to_owned());
    let mut forms = vec![form("sysctl.conf alone", std::slice::from_ref(&conf))];
    let names = [
        "50.conf",
        "oracle",
        "zz-hugewise-pool.conf",
        ".hidden",
        ".hidden.conf",
        "a.rpmsave",
        "a.conf.rpmnew",
        "a.bak",
        "a.orig",
        "a.rpmorig",
        "a.conf~",
        "README",
        "a b",
    ];
    forms.extend(
        names
            .iter()
            .map(|name| form(format!("{name} beside sysctl.conf"), &[conf.clone(), named(name)])),
    );
    forms.extend(names.iter().map(|name| form(format!("{name} alone"), &[named(name)])));
    let other = |name: &str, text: &str| (format!("/etc/sysctl.d/{name}"), text.to_owned());
    for text in [
        "vm.nr_hugepages=102\n",
        "vm/nr_hugepages=102\n",
        "# vm.nr_hugepages=102\n",
        "; x\n",
        "vm.swappiness=9\n",
    ] {
        forms.push(form(
            format!("60: {text}"),
            &[conf.clone(), named("50.conf"), other("60", text)],
        ));
    }
    let link = |name: &str, to: &str| (format!("/etc/sysctl.d/{name}"), format!("->{to}"));
    for to in ["/dev/null", "../sysctl.conf", "/nowhere"] {
        forms.push(form(
            format!("a link to {to}"),
            &[conf.clone(), named("50.conf"), link("99-x", to)],
        ));
    }
    let elsewhere = ("/usr/lib/sysctl.d/99-z.conf".to_owned(), "vm.nr_hugepages=102\n".to_owned());
    forms.push(form("a folder that nothing reads", &[conf, elsewhere]));
    forms
}

/// Forms of sysctl.d.
pub(crate) fn of_sysctl() -> Vec<Form> {
    const FILE: &str = "/etc/sysctl.d/50.conf";
    let mut forms: Vec<Form> = Vec::new();
    forms.extend(KEYS.iter().map(|key| one(key, FILE, key.replace("{}", "101") + "\n")));
    forms.extend(VALUES.iter().map(|value| one(value, FILE, format!("vm.nr_hugepages={value}\n"))));
    forms.extend(SETTINGS.iter().map(|text| one(text, FILE, (*text).to_owned())));
    forms.extend(placed("sysctl.d"));
    // Lines of several files about one key.
    for text in [
        "vm.nr_hugepages=102\n",
        "vm.nr_*=102\n",
        "-vm.nr_hugepages\n",
        "vm.nr_hugepages=\n",
        "vm/nr_hugepages=101\n",
    ] {
        let files = [
            (FILE.to_owned(), "vm.nr_hugepages=101\n".to_owned()),
            ("/run/sysctl.d/60.conf".into(), text.into()),
        ];
        forms.push(form(format!("60.conf: {text}"), &files));
        let files = [
            (FILE.to_owned(), "vm.nr_*=101\n".to_owned()),
            ("/run/sysctl.d/60.conf".into(), text.into()),
        ];
        forms.push(form(format!("a pattern, then 60.conf: {text}"), &files));
    }
    let own = ("/etc/sysctl.conf".to_owned(), "vm.nr_hugepages=103\n".to_owned());
    let other = ("/usr/lib/sysctl.d/99-z.conf".to_owned(), "vm.nr_hugepages=102\n".to_owned());
    let link = |name: &str, to: &str| (format!("/etc/sysctl.d/{name}"), format!("->{to}"));
    forms.push(form("sysctl.conf alone", std::slice::from_ref(&own)));
    forms.push(form("sysctl.conf without its link", &[own.clone(), other.clone()]));
    for to in ["../sysctl.conf", "/etc/sysctl.conf"] {
        forms.push(form(
            format!("sysctl.conf linked by {to}"),
            &[own.clone(), other.clone(), link("99-sysctl.conf", to)],
        ));
    }
    forms.push(form(
        "sysctl.conf linked as the last",
        &[own.clone(), other.clone(), link("zz.conf", "../sysctl.conf")],
    ));
    forms.push(form("sysctl.conf masked", &[own, other, link("99-sysctl.conf", "/dev/null")]));
    forms
}

/// Forms of tmpfiles.d.
pub(crate) fn of_tmpfiles() -> Vec<Form> {
    const FILE: &str = "/etc/tmpfiles.d/50.conf";
    let mut forms: Vec<Form> = Vec::new();
    forms.extend(LINES.iter().map(|line| one(line, FILE, in_place(line) + "\n")));
    forms.extend(
        VALUES.iter().map(|value| {
            one(value, FILE, in_place(&format!("w P/nr_hugepages - - - - {value}\n")))
        }),
    );
    for several in SEVERAL {
        forms.push(one(several, FILE, in_place(several)));
        // The same lines, each in a file of its own.
        let lines = in_place(several);
        let files = lines.lines().zip([
            "/usr/lib/tmpfiles.d/a.conf",
            "/etc/tmpfiles.d/b.conf",
            "/run/tmpfiles.d/c.conf",
        ]);
        let files: Vec<(String, String)> =
            files.map(|(line, path)| (path.to_owned(), line.to_owned())).collect();
        forms.push(form(format!("in files of their own: {several}"), &files));
    }
    forms.push(one("no line feed", FILE, in_place("w P/nr_hugepages - - - - 101")));
    forms.extend(placed("tmpfiles.d"));
    forms
}
