"""The tables of known programs and their harmless arguments.

`READ_ONLY_PROGRAMS`: programs that only read, unless an option tells them otherwise.
`MODIFYING_PROGRAMS`: programs that change files, use the network, or execute their input; listed is
the part that a rule with the program's name alone covers. `BUILD_PROGRAMS`: programs that build,
check, test and install; they run code of the project by design. The rule says which code (`npm
test`, `cargo build`); a rule that only names the program covers queries. Options that choose
another program, configuration, plugin or output are not in these tables, whatever the rule.
"""

from __future__ import annotations

from joey.core.permissions.arguments import ProgramSpec

_REMOTE_PATH_RE = ":"
_GREP_OPTIONS = (
    "-A# -B# -C# -E -F -G -H -I -P -S -U -a -c -e= -f: -h -i -l -m# -n -o -q -r -s -u -v -w -x -z"
    " --after-context# --before-context# --color --colour --context# --count --exclude="
    " --exclude-dir= --extended-regexp --files --files-with-matches --files-without-match"
    " --fixed-strings --glob= --heading --hidden --ignore-case --include= --invert-match"
    " --line-number --max-count# --no-filename --no-heading --no-ignore --no-messages"
    " --only-matching --perl-regexp --quiet --silent --recursive --regexp= --smart-case --sort="
    " --type= --type-not= --with-filename --word-regexp --line-regexp --basic-regexp --text --null"
    " --count-matches --trim --max-depth# --iglob= --column --stats --json --type-list"
    " --no-line-number --pretty --vimgrep --multiline --case-sensitive --file:"
)
_RIPGREP_OPTIONS = (
    _GREP_OPTIONS.replace(" -E ", " -E= ")
    .replace(" -r ", " -r= ")
    .replace(" -h ", " ")
    .replace(" -z ", " ")
    .replace(" --color ", " --color= ")
    + " -g= -t= -T= --replace= --encoding="
)
_HEAD_TAIL_OPTIONS = (
    "-n# -c# -q -v -z --lines# --bytes# --quiet --silent --verbose --zero-terminated"
)
_CHECKSUM_OPTIONS = "-b -t -z -w --binary --text --tag --zero --quiet --status"
_UNSAFE_HTTP_METHOD_RE = (
    r"^(-\w*X|--request=)(?!(GET|HEAD|OPTIONS)$)\w"
    r"|^(?!(GET|HEAD|OPTIONS|localhost)$)[A-Za-z][\w-]*$"
)
"""Attached, or a word of its own: any name that a server may know as a method."""
_NETCAT_OPTIONS = "-4 -6 -n -u -v -w= -z"

READ_ONLY_PROGRAMS: dict[str, ProgramSpec] = {
    "base64": ProgramSpec("-d -D -w= --decode --wrap= --ignore-garbage"),
    "ack": ProgramSpec(
        "-1 -A# -B# -C# -H -Q -c -h -i -l -m# -n -o -v -w --ignore-case --literal --nocolor"
        " --nogroup --smart-case --word-regexp --count --files-with-matches",
        text_operands="first",
    ),
    "ag": ProgramSpec(
        "-A# -B# -C# -G= -H -Q -S -a -c -i -l -m# -n -o -s -v -w --count --files-with-matches"
        " --hidden --ignore-case --literal --nocolor --nogroup --smart-case --word-regexp",
        text_operands="first",
    ),
    "basename": ProgramSpec("-a -s= -z --multiple --suffix= --zero", text_operands="all"),
    "bat": ProgramSpec(
        "-A -H= -d -l= -n -p -r= --color= --decorations= --highlight-line= --language="
        " --line-range= --list-languages --list-themes --number --paging= --plain --show-all"
        " --style= --tabs= --terminal-width= --theme= --wrap="
    ),
    "cksum": ProgramSpec("-a= --algorithm= --untagged --tag --raw --base64 --length="),
    "column": ProgramSpec("-c= -s= -t -x --table --separator= --columns= --output-separator= -o="),
    "cpio": ProgramSpec("-t -v --list --verbose", unsafe_argument_pattern=_REMOTE_PATH_RE),
    "curl": ProgramSpec(
        "-4 -6 -A= -G -H= -I -L -S -X= -f -i -k -m= -s -v --compressed --connect-timeout= --fail"
        " --get --head --header= --http1.1 --http2 --include --insecure --location --max-time="
        " --request= --retry= --show-error --silent --user-agent= --verbose",
        unsafe_argument_pattern=rf"^(-\w*|--\w+=)?@|[{{}}\[\]]|^(?!(?i:https?)://)[\w+.-]+://|{_UNSAFE_HTTP_METHOD_RE}",
    ),
    "cut": ProgramSpec(
        "-b= -c= -d= -f= -n -s -z --bytes= --characters= --delimiter= --fields= --complement"
        " --only-delimited --output-delimiter= --zero-terminated"
    ),
    "date": ProgramSpec(
        "-I -Idate -Ihours -Iminutes -Is -Iseconds -Ins -R -d= -r: -u --date= --iso-8601"
        " --reference: --rfc-3339= --rfc-email --utc",
        harmless_operand_pattern=r"\+",
    ),
    "df": ProgramSpec("-a -h -H -i -k -l -m -P -T -t= --total --human-readable --inodes --type="),
    # Links that it finds in a directory are checked by `command_paths`.
    "diff": ProgramSpec(
        "-B -E -N -U= -Z -a -b -c -e -i -q -r -s -t -u -w -y --brief --color --context --recursive"
        " --ignore-all-space --ignore-blank-lines --ignore-case --ignore-space-change"
        " --minimal --new-file --side-by-side --suppress-common-lines --text --unified --width="
        " --report-identical-files --no-dereference --exclude= -x="
    ),
    "dirname": ProgramSpec("-z --zero", text_operands="all"),
    "du": ProgramSpec(
        "-0 -a -b -c -d= -h -k -m -s -S -x -t= --all --apparent-size --bytes --total --max-depth="
        " --human-readable --summarize --separate-dirs --one-file-system --exclude= --si --time"
    ),
    "echo": ProgramSpec(text_operands="all"),
    "expr": ProgramSpec(text_operands="all"),
    "fd": ProgramSpec(
        "-H -I -a -d= -e= -g -i -p -s -t= -E= --absolute-path --color= --extension= --full-path"
        " --glob --hidden --ignore-case --max-depth= --no-ignore --type= --exclude=",
        text_operands="first",
    ),
    "file": ProgramSpec("-L -b -i --brief --mime --mime-encoding --mime-type"),
    "find": ProgramSpec(
        "-H -P -a -amin= -and -anewer: -atime= -cmin= -cnewer: -ctime= -daystart -depth -empty"
        " -executable -false -group= -iname= -inum= -ipath= -iregex= -links= -lname= -ls"
        " -maxdepth= -mindepth= -mmin= -mount -mtime= -name= -newer: -not -o -or -path= -perm="
        " -print -print0 -printf= -prune -quit -readable -regex= -regextype= -samefile: -size="
        " -true -type= -user= -wholename= -writable -xdev",
        has_single_dash_options=True,
    ),
    "fzf": ProgramSpec("-e -f= -i --exact --filter= --no-sort"),
    "grep": ProgramSpec(_GREP_OPTIONS.replace(" -S ", " ") + " -L", text_operands="first"),
    "head": ProgramSpec(_HEAD_TAIL_OPTIONS),
    "hexdump": ProgramSpec("-C -b -c -d -n= -o -s= -v -x"),
    "hg": ProgramSpec(
        "-l# -p -q -r= -v --graph --limit= --patch --rev= --stat",
        harmless_subcommands="annotate diff heads id log manifest root status summary tip",
        unsafe_argument_pattern="://",
    ),
    "hostname": ProgramSpec("-I -d -f -i -s", max_operands=0),
    "iconv": ProgramSpec("-c -f= -l -s -t= --from-code= --list --to-code="),
    "jobs": ProgramSpec("-l -n -p -r -s"),
    "journalctl": ProgramSpec(
        "-u= -n= -b -k -p= -x -e -r -o= --since= --until= --no-pager --unit="
    ),
    "jq": ProgramSpec(
        "-r -c -e -s -S -M -C -n -R -j -a --raw-output --compact-output --exit-status --slurp"
        " --sort-keys --monochrome-output --color-output --null-input --raw-input --join-output"
        " --ascii-output --tab --indent= --arg== --argjson== --version",
        text_operands="first",
        # `env` and `$ENV` are the variables; `.env` and `"env"` are keys of the file.
        unsafe_argument_pattern=r"\b(import|include|modulemeta|ENV)\b|(?<![.\w\"])env\b",
    ),
    "less": ProgramSpec(
        "-E -F -M -N -R -S -X -e -g -i -m -n -r -s", unsafe_argument_pattern=r"^\+"
    ),
    "lsof": ProgramSpec("-P -a -i= -l -n -p= -t -u="),
    "ls": ProgramSpec(
        "-1 -A -B -C -F -G -I= -N -Q -R -S -T= -U -X -Z -a -b -c -d -f -g -h -i -k -l -m -n -o"
        " -p -q -r -s -t -u -v -w= -x --all --almost-all --author --block-size= --classify"
        " --color --directory --file-type --format= --full-time --group-directories-first"
        " --hide= --human-readable --ignore= --indicator-style= --inode --literal --no-group"
        " --numeric-uid-gid --quote-name --quoting-style= --recursive --reverse --si --size"
        " --sort= --time= --time-style= --width= --zero"
    ),
    # A custom page may include any file.
    "man": ProgramSpec(
        "-a -f -k -s= -w --all --apropos --sections= --whatis --where", unsafe_argument_pattern="/"
    ),
    "md5sum": ProgramSpec(_CHECKSUM_OPTIONS),
    "more": ProgramSpec("-d -f -l -c -s -u -n#", unsafe_argument_pattern=r"^\+"),
    "netstat": ProgramSpec("-4 -6 -a -e -i -l -n -o -p -r -s -t -u -x", max_operands=0),
    "nc": ProgramSpec(_NETCAT_OPTIONS, required_options="-z"),
    "nm": ProgramSpec("-A -C -D -S -a -g -n -p -r -u", unsafe_argument_pattern="^@"),
    "pgrep": ProgramSpec("-a -c -d= -f -i -l -n -o -u= -x", text_operands="all"),
    "ping": ProgramSpec("-4 -6 -W= -c= -n -q -w=", text_operands="all"),
    "printf": ProgramSpec(text_operands="all"),
    "ps": ProgramSpec(
        "-A -a -d -e -f -F -H -L -l -o= -p= -u= -U= -w -x --forest --no-headers --sort=",
        text_operands="all",
    ),
    "rg": ProgramSpec(_RIPGREP_OPTIONS, text_operands="first"),
    "seq": ProgramSpec("-f= -s= -w --format= --separator= --equal-width", text_operands="all"),
    "shuf": ProgramSpec("-e -i= -n= -r -z"),
    "sleep": ProgramSpec(text_operands="all"),
    "sort": ProgramSpec(
        "-M -V -b -c -d -f -g -h -i -k= -n -r -s -t= -u -z --field-separator= --ignore-case --check"
        " --key= --numeric-sort --reverse --stable --unique --version-sort --human-numeric-sort"
        " --general-numeric-sort --month-sort --ignore-leading-blanks --dictionary-order"
    ),
    "ss": ProgramSpec("-4 -6 -a -e -i -l -m -n -o -p -r -s -t -u -x", text_operands="all"),
    "ssh-keygen": ProgramSpec("-l -v", harmless_subcommands=""),
    "strings": ProgramSpec(
        "-a -f -n= -t= -e= --all --bytes= --radix=", unsafe_argument_pattern="^@"
    ),
    "stat": ProgramSpec("-c= -f -t --format= --printf= --terse --file-system"),
    "svn": ProgramSpec(
        "-c= -l= -q -r= -u -v --limit= --revision= --summarize --verbose --xml",
        harmless_subcommands="blame cat diff info list log ls status",
        unsafe_argument_pattern="://",
    ),
    "systemctl": ProgramSpec(
        "-l -n= -a -q --no-pager --all --failed --type= --state=",
        harmless_subcommands="status list-units list-unit-files is-active is-enabled show cat",
    ),
    "tail": ProgramSpec(_HEAD_TAIL_OPTIONS),
    "test": ProgramSpec(
        "-a -b -c -d -e -ef -eq -f -ge -gt -h -k -L -le -lt -n -ne -nt -o -ot -p -r -s -t -u"
        " -w -x -z",
        has_single_dash_options=True,
    ),
    "top": ProgramSpec("-1 -H -b -c -i -n= -o= -p= -u=", text_operands="all"),
    "tr": ProgramSpec(
        "-c -C -d -s -t --complement --delete --squeeze-repeats", text_operands="all"
    ),
    "tree": ProgramSpec("-C -D -F -I= -L= -P= -a -d -f -h -i -n -p -s -J --dirsfirst --gitignore"),
    "uniq": ProgramSpec("-c -d -f= -i -s= -u -w= -z --count --repeated --unique", max_operands=1),
    "wait": ProgramSpec("-f -n"),
    "wc": ProgramSpec("-c -m -l -L -w --bytes --chars --lines --max-line-length --words"),
    "wget": ProgramSpec(
        "-4 -6 -S -T= -nc -nv -q -t= --no-verbose --quiet --server-response --spider",
        required_options="--spider",
    ),
    "xmllint": ProgramSpec("--format --nonet --noout --xpath=", unsafe_argument_pattern="://"),
    # Of an option without a value it reads the first letter: `-ps`, `-pl` and `-p` are one.
    "xxd": ProgramSpec(
        "-c= -g= -l= -p -s= -u",
        max_operands=1,
        unsafe_argument_pattern="^-[pu].",
        requires_options_first=True,
    ),
    "zcat": ProgramSpec("-f -q -v"),
    "yq": ProgramSpec(
        "-C -M -P -r -o= --output-format= --unwrapScalar -e -N",
        unsafe_argument_pattern=r"\b(load\w*|strload|system|env\w*|strenv|input_filename|import|include)\b"
        r"|\beval *\(",
    ),
}
READ_ONLY_PROGRAMS |= dict.fromkeys(("bzcat", "xzcat", "zstdcat"), READ_ONLY_PROGRAMS["zcat"])
READ_ONLY_PROGRAMS |= dict.fromkeys(
    ("sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum", "b2sum"),
    READ_ONLY_PROGRAMS["md5sum"],
)

ALWAYS_READ_ONLY_PROGRAMS = (
    "base32 basenc cal cat cmp comm expand factor false fmt fold free groups id join lscpu lsblk nl"
    " nproc numfmt od paste pr printenv pwd readlink realpath rev tac true tty type uname unexpand"
    " uptime which who whoami whereis sum tsort look cd pushd popd dirs"
)
"""Nothing but readers: no option of theirs changes or runs anything."""


ALWAYS_ASK_SPEC = ProgramSpec(harmless_subcommands="")
"""Whatever it is told needs a rule of its own."""

_COPY_MOVE_OPTIONS = "-f -i -n -u -v -t: --force --interactive --no-clobber --update --verbose"
_COMPRESSION_OPTIONS = (
    "-1 -9 -c -f -k -l -q -t -v --stdout --keep --list --quiet --test --verbose --best --fast"
)
_CHMOD_OPTIONS = "-c -f -v --changes --silent --quiet --verbose"

MODIFYING_PROGRAMS: dict[str, ProgramSpec] = {
    "bzip2": ProgramSpec(_COMPRESSION_OPTIONS),
    "bunzip2": ProgramSpec(
        "-c -k -t -q -v --stdout --test", required_options="-c -t --stdout --test"
    ),
    "chgrp": ProgramSpec(_CHMOD_OPTIONS),
    "chmod": ProgramSpec(_CHMOD_OPTIONS + " --reference:"),
    "chown": ProgramSpec(_CHMOD_OPTIONS),
    "cp": ProgramSpec(_COPY_MOVE_OPTIONS + " -p --preserve --target-directory:"),
    "dd": ProgramSpec(
        unsafe_argument_pattern="^(?!(if|of|bs|ibs|obs|count|skip|seek|conv|status)=)"
    ),
    "gzip": ProgramSpec(_COMPRESSION_OPTIONS),
    "install": ProgramSpec("-C -D -d -m= -p -v -t: --directory --mode= --verbose"),
    "kill": ProgramSpec("-l -s= -n= -0 -1 -2 -9 -15", text_operands="all"),
    "ln": ProgramSpec("-s -f -n -r -v -i --symbolic --force --relative --verbose"),
    "mkdir": ProgramSpec("-p -v -m= --parents --verbose --mode="),
    "mv": ProgramSpec(_COPY_MOVE_OPTIONS + " --target-directory:"),
    "rm": ProgramSpec("-f -i -I -v --force --verbose --interactive"),
    "rmdir": ProgramSpec("-p -v --parents --verbose"),
    "rsync": ProgramSpec(
        "-a -h -n -r -t -v -z --archive --dry-run --exclude= --progress --stats --verbose",
        unsafe_argument_pattern=_REMOTE_PATH_RE,
    ),
    "scp": ProgramSpec("-C -p -q", unsafe_argument_pattern=_REMOTE_PATH_RE),
    "tar": ProgramSpec(
        "-J -f: -j -t -v -z --exclude= --list --verbose --file: --gzip",
        unsafe_argument_pattern=":|^@",
        has_bundled_options=True,
    ),
    "tcpdump": ProgramSpec("-A -X -c= -e -i= -n -q -v"),
    "tee": ProgramSpec("-a -i -p --append --ignore-interrupts"),
    "touch": ProgramSpec("-a -c -d= -h -m -r: -t= --no-create --date= --reference:"),
    "truncate": ProgramSpec("-c -o -r: -s= --no-create --size= --reference:"),
    "unzip": ProgramSpec(
        "-l -p -q -t -v -Z", required_options="-l -p -t -v -Z", requires_options_first=True
    ),
    "xz": ProgramSpec(_COMPRESSION_OPTIONS),
    "zip": ProgramSpec("-0 -9 -j -q -v -x= -y"),
    "zstd": ProgramSpec(_COMPRESSION_OPTIONS),
}
MODIFYING_PROGRAMS |= dict.fromkeys(
    ("gunzip", "unxz", "unzstd"),
    ProgramSpec(
        "-c -l -k -t -q -v --stdout --list --test", required_options="-c -l -t --stdout --test"
    ),
)

OPAQUE_PROGRAMS = (
    "7z 7za 7zr ab abcl acr alpine animate ansible ansible-console ansible-galaxy ansible-playbook"
    " ansible-pull ansible-test apache2 apache2ctl apport-cli ar aria2c arj arp as ascii-xfr aspell"
    " asterisk at atobm autoconf autoheader automake autoreconf aws az batch bb bconsole bmake boot"
    " bpftrace bridge bundler busctl byebug c++ c89 c99 cabal cancel casperjs cc cdist certbot"
    " chattr chez clang clang++ clickhouse clickhouse-client clickhouse-local clisp clj cobc"
    " cockroach code codex compare composite convert cpan cpp crash crontab cscript csi csplit"
    " csvtool ctr cupsfilter d8 daphne dart2native dc debugfs dhclient dialog display distcc"
    " dmsetup dnsmasq dos2unix dosbox dotnet-script dpkg-deb dpkg-reconfigure duckdb dvips"
    " easy_install easyrsa eb ecl ed efax electron emacs emacsclient enscript eqn escript esno"
    " espeak ex exiftool expect fail2ban-client fennel ffmpeg file-rename flower forge ftp g++ gcc"
    " gcloud gcore gdb genisoimage gforth ghc ghci gimp ginsh gnuplot gosh gpg gpg2 gprolog graalpy"
    " groff groovysh gsi gtester gunicorn hhvm highlight hping3 http httpie https hy hypercorn idle"
    " import influx ip iptables ipy ispell iverilog janet jar javac jbang jimsh jjs joe jruby"
    " jrunscript jsc jshell jtag jupyter just k6 knife kotlin kotlinc kscript ksshell latex latexmk"
    " ld ldconfig ldd lean lftp libreoffice links litecli lldb localc locust loginctl logrotate lp"
    " lpr lualatex luatex lwp-download lwp-request lxc lxd lynx m4 mage magick mail mailx mariadb"
    " micropython minicom mit-scheme mkfs mkswap mmv mogrify mono montage moon mosquitto"
    " mosquitto_sub mount mruby msfconsole msgfilter msmtp mutt mycli mysql nail nano nasm ncdu"
    " ncftp needrestart newgrp newlisp nft nginx nmap node-gyp nroff ntpdate nvim nvimdiff nw"
    " opencode openssl openvpn opkg osascript pandoc papermill passwd patch pax pdb pdflatex pdftex"
    " perf perl-rename perl6 perlbug pforth pgcli phantomjs pic pico picolisp pip-compile pkg"
    " plymouth pmake premake5 prename procmail protoc pry psftp psql ptipython ptpython puppet py"
    " pydoc pyinstaller pyston qemu-system-x86_64 qjs qmake qpdf quarto ranger rbx rc rclone red"
    " redcarpet rename restic rhino rpm rpmdb rpmquery rpmverify rsyslogd rtorrent run-mailcap"
    " runhaskell runscript rustc rustdoc rustup rview rvim s-nail sage scanmem scheme sclang scrot"
    " sendmail service setcap setfacl sftp shar shred slsh smbclient socat socket soelim soffice"
    " split sponge sqlcmd sqlite3 sqlmap ssh-copy-id sshfs streamlit strip swaks swapoff swapon"
    " swipl sysctl systemd-resolve tailscale task tasksh tbl tclsh tdbtool telnet tex texi2dvi"
    " texlua tftp tic timedatectl troff truffleruby ug umount unrar unsquashfs update-alternatives"
    " urlget usql uudecode uuencode uvicorn v vagrant vi vidir view vigr vim vimdiff vipw virsh"
    " volatility vvp w3m wall wasmedge wasmer wasmtime whiptail wish wscript xdg-open xdotool"
    " xelatex xetex xh xmodmap xpad xsltproc yap yelp yt-dlp zathura zic zsoelim zx zypper"
)
"""What they are told is a program of its own, or names files nobody sees in the command line."""
UNKNOWN_PROGRAM_SPEC = ProgramSpec(
    "--check --color --colour --dry-run --help --json --no-color --no-colour --quiet --silent"
    " --verbose --version"
)
"""Of a program that nobody has looked through: what these mean everywhere."""

SUBCOMMAND_PROGRAMS = (
    "act adduser airflow alembic amplify ansible-vault ant aptitude argocd artisan asdf azcopy"
    " bazelisk blkdiscard bq buck buck2 buildah buildctl bzr caddy cake capacitor cargo-binstall"
    " carthage cdk cdktf celery chage chezmoi chfn choco chpasswd chsh cloudflared colima conan"
    " consul cordova corepack cpanm crane createdb createuser crictl cryptsetup crystal dagger"
    " darcs dart dbt defaults deluser direnv diskutil django-admin dlv docker-compose"
    " docker-machine doctl doit dpkg dropdb dropuser drush dune dvc earthly eas eksctl emerge"
    " etcdctl expo fab fastlane fdisk firebase firewall-cmd flask flatpak flutter fly flyctl fnm"
    " foreman forever fossil fuser gatsby git-lfs glab gpasswd groupadd groupdel groupmod grunt"
    " gsutil guix gulp halt hatch hcloud helmfile heroku honcho hostnamectl hub hugo ibazel"
    " ibmcloud ifconfig incus init insmod inv invoke ionic istioctl jekyll jenv jj k3d k3s killall"
    " kind kops kubeadm kubectx kubens kustomize lab launchctl lein lerna lima limactl linode-cli"
    " localectl losetup luarocks makepkg mamba mc meson micromamba mill minikube mise mkfifo mknod"
    " mlflow modprobe mongoimport mongorestore multipass mvnd mysqladmin mysqldump nerdctl netlify"
    " netplan networksetup ng nim nix nix-build nix-env nix-shell nomad nuget nvm nx oc oci opam"
    " open oras overmind packer pacman pants parted paru pdm pear pecl pg_ctl pg_restore pipenv"
    " pkill plz pm2 pod podman-compose poe port poweroff prefect prisma pulumi pyenv rabbitmqctl"
    " rails rbenv rebar3 reboot redis-cli renice repo rmmod route rush rye s3cmd salt salt-call sam"
    " sbt scons scoop scrapy scutil sdk serverless setfattr sfdisk shutdown skaffold skill skopeo"
    " sl sls softwareupdate sops stack start stow supabase supervisorctl svnadmin tccutil tea"
    " telinit terragrunt tilt tofu turbo twine ufw useradd userdel usermod vault vboxmanage velero"
    " vercel visudo volta vue waf wasm-pack winget wipefs wp wrangler wsk xattr xbps-install"
    " xcodebuild xmake yay zig"
)
"""Do what their first word says: run, deploy, delete, install, or act on the machine."""
SUBCOMMAND_PROGRAM_SPEC = ProgramSpec(UNKNOWN_PROGRAM_SPEC.harmless_options, "")

_URL_ARGUMENT_RE = r"://|^git[+@]|^file:|^@"
_PACKAGE_URL_RE = r"://|^git[+@]|^file:|^@(?![\w.-]+/[\w.-]+(@[\w.^~-]+)?$)"
"""To npm and its like, `@types/node` is a package."""
_NPM_OPTIONS = (
    "-s -w: -q --silent --quiet --if-present --workspace: --workspaces --json --depth= --all --long"
    " --version -v -D --save-dev --no-audit --no-fund --dry-run --watch --coverage --ci --runInBand"
    " --verbose -t= --run --frozen-lockfile --immutable --prefer-offline --grep= --testNamePattern="
    " --testPathPattern= --bail --passWithNoTests --save --save-exact --no-save --omit= --watchAll="
    " --maxWorkers= --forceExit --detectOpenHandles --colors --no-progress --no-optional"
    " --no-package-lock --legacy-peer-deps --include-workspace-root --production --audit-level="
    " --network-timeout= --non-interactive --no-frozen-lockfile --strict-peer-dependencies"
    " --filter= --recursive --stream --parallel --max-warnings= --shard= --ignore-engines"
    " --immutable-cache --check-cache --inline-builds --check --noEmit --single-run --no-watch"
)
_PYTEST_OPTIONS = (
    "-q -v -vv -vvv -x -s -l -k= -m= -n= -r= --tb= --maxfail= --lf --ff --last-failed"
    " --failed-first --durations= --co --collect-only --no-header --no-summary --color= --cov:"
    " --cov-report: -h --exitfirst --quiet --verbose --capture= --strict-markers --markers"
    " --fixtures --sw --stepwise --version --disable-warnings --showlocals --full-trace --timeout="
    " --no-cov --nf --new-first --numprocesses= --ignore: --deselect= --doctest-modules"
    " --cov-branch --cov-fail-under= --dist= --maxprocesses= --reruns= --reruns-delay="
    " --randomly-seed= --timeout-method= --strict --strict-config --log-level= --log-cli-level="
    " --asyncio-mode= --benchmark-disable --benchmark-skip --forked --setup-show --hypothesis-seed="
    " --hypothesis-show-statistics --verbosity= --cache-clear --junitxml: --junit-xml:"
)
_PYTEST_UNSAFE_RE = (
    r"^--dist=(?!(no|each|load|loadscope|loadfile|loadgroup|worksteal)$)"
    r"|^--junit-?xml(?!=[\w-]*(junit|report|result)[\w-]*\.xml$)"
)
"""Files that it may write are named as reports, in the directory where it runs."""
_REPORTER_RE = (
    r"^--reporter(?!s)(?!=(default|dot|verbose|line|list|github|github-actions|tap|basic)$)"
)
"""Any other reporter may be a module, or write files."""
_CMAKE_UNSAFE_RE = (
    r"^--build|^-[SB]|^-D(?!\w+(:BOOL)?=(ON|OFF|TRUE|FALSE|YES|NO|[01])$"
    r"|CMAKE_BUILD_TYPE(:STRING)?=\w+$|CMAKE_(C|CXX)_STANDARD=\d+$)"
)
"""Directories are named by the rule; a value that is more than a switch may be a program."""
_GO_UNSAFE_RE = r"^--?coverprofile(?!=[\w-]+\.(out|cov|info|lcov)$)"
_RSPEC_OPTIONS = (
    "-f= -e= --format= --fail-fast --color --no-color --tag= -t= --seed= --only-failures --order="
    " --backtrace -b --profile --dry-run --warnings"
)

BUILD_PROGRAMS: dict[str, ProgramSpec] = {
    "bazel": ProgramSpec(
        "-c= -k -j= --compilation_mode= --test_output= --keep_going --jobs= --verbose_failures"
        " --nocache_test_results --test_filter= --test_tag_filters= --build_tag_filters="
        " --build_tests_only --color= --curses= --show_progress --noshow_progress"
        " --test_summary= --runs_per_test= --flaky_test_attempts= --test_timeout=",
        harmless_subcommands="version",
        harmless_operand_pattern=r"-?(//|:)[\w./:+=-]*$",
        text_operands="all",
    ),
    "bandit": ProgramSpec("-r -q -v -ll -lll -f= --recursive --quiet --format="),
    "black": ProgramSpec(
        "-q -v -l= -t= -S --check --diff --quiet --line-length= --target-version= --version --fast"
    ),
    "brew": ProgramSpec(
        "-q -v --json", harmless_subcommands="info list outdated search deps leaves"
    ),
    "bun": ProgramSpec(
        _NPM_OPTIONS, harmless_subcommands="", unsafe_argument_pattern=_PACKAGE_URL_RE
    ),
    "bundle": ProgramSpec(
        "-q -j= --quiet --jobs= --retry= --local --frozen", harmless_subcommands=""
    ),
    "cargo": ProgramSpec(
        "-p= -q -v -vv -j= -D= -W= -A= -F= --package= --lib --bins --bin= --tests --test= --release"
        " --workspace --all --all-features --features= --no-default-features --no-run"
        " --no-fail-fast --offline --locked --frozen --doc --example= --examples --exact"
        " --nocapture --color= --message-format= --all-targets --check --test-threads= --profile="
        " --ignored --quiet --verbose --depth= --edges= -i= --invert= --version --no-deps"
        " --format-version= --benches --bench= --jobs= --keep-going --target= --exclude= --skip="
        " --include-ignored --show-output --list --document-private-items --partition="
        " --retries= --no-capture --fail-fast --ignore-rust-version --edition=",
        harmless_subcommands="search version --version help pkgid",
        # A description of a target (`--target x.json`) names programs.
        unsafe_argument_pattern=r"^\+|\.json$|" + _URL_ARGUMENT_RE,
    ),
    "composer": ProgramSpec(
        "-q -v -n -o -W --no-interaction --prefer-dist --prefer-source --no-progress --no-dev"
        " --dev --optimize-autoloader --no-scripts --no-plugins --ansi --no-ansi --dry-run"
        " --ignore-platform-reqs --ignore-platform-req= --classmap-authoritative --strict"
        " --with-all-dependencies --prefer-stable --prefer-lowest --no-suggest",
        harmless_subcommands="",
        unsafe_argument_pattern=_URL_ARGUMENT_RE,
    ),
    "cmake": ProgramSpec(
        "-j# -S: -B: -G= -D= --build: --target= --config= --parallel# --version --verbose",
        harmless_subcommands="",
        unsafe_argument_pattern=_CMAKE_UNSAFE_RE,
    ),
    "conda": ProgramSpec("-q -n= --json", harmless_subcommands="list info search"),
    "coverage": ProgramSpec(
        "-m -i --skip-covered --skip-empty --format= --precision= --fail-under= --sort="
        " --show-missing --ignore-errors",
        harmless_subcommands="report",
    ),
    "ctest": ProgramSpec(
        "-R= -E= -V -VV -j= -L= --output-on-failure --verbose --rerun-failed -N --test-dir:"
        " -C= --build-config= -LE= --parallel# --timeout= --stop-on-failure --progress"
        " --schedule-random --no-tests= --repeat="
    ),
    "deno": ProgramSpec(
        "-q --quiet --json --check --no-check --parallel --fail-fast --filter= --frozen"
        " --cached-only --doc --trace-leaks --permit-no-files --shuffle= --no-lock",
        harmless_subcommands="info doc types --version",
    ),
    "docker": ProgramSpec(
        "-a -q -n= -l -s -t --all --filter= --format= --no-trunc --tail= --since= --timestamps"
        " --digests --quiet --size --no-stream --no-cache --build --detach -d --rm --pull"
        " --progress= --target= --platform= --tag= --wait --remove-orphans --force-recreate",
        harmless_subcommands="ps images version info logs inspect top port stats history diff",
    ),
    "dotnet": ProgramSpec(
        "-c= -v= -f= --no-build --no-restore --configuration= --filter= --verbosity= --nologo"
        " --framework= --list-tests --no-incremental --locked-mode --blame --force --version"
        " --info --list-sdks --list-runtimes",
        harmless_subcommands="--version --info",
    ),
    "eslint": ProgramSpec(
        "--ext= --quiet --max-warnings= --no-color --color --cache --version -v"
        " --no-eslintrc --report-unused-disable-directives --no-warn-ignored"
    ),
    "flake8": ProgramSpec(
        "--max-line-length= --select= --ignore= --extend-ignore= --count -q -v --statistics"
        " --show-source --exclude= --max-complexity= --version"
    ),
    "gem": ProgramSpec("-q -l", harmless_subcommands="list search which outdated"),
    "gh": ProgramSpec(
        "-L= -s= -a= -l= -S= --limit= --state= --author= --label= --search= --json= --jq= -q="
        " --comments --patch --name-only --log --log-failed --branch= -b=",
        harmless_subcommands="",
        unsafe_argument_pattern=r"://",
    ),
    "go": ProgramSpec(
        "-v -run= -count= -race -cover -short -timeout= -bench= -benchmem -failfast -json -p="
        " -parallel= -tags= -m -x -a -n -all -src -skip= -list= -shuffle= -vet= -covermode="
        " -coverpkg= -coverprofile: -cpu= -trimpath -buildvcs=",
        harmless_subcommands="version env list doc help",
        has_single_dash_options=True,
        unsafe_argument_pattern=f"{_GO_UNSAFE_RE}|{_URL_ARGUMENT_RE}",
    ),
    "gofmt": ProgramSpec("-l -d -s -e"),
    "golangci-lint": ProgramSpec(
        "-v -j= -D= -E= --fast --timeout= --new --build-tags= --concurrency= --new-from-rev="
        " --allow-parallel-runners --max-same-issues= --max-issues-per-linter= --disable="
        " --enable= --disable-all --enable-all --tests= --verbose --show-stats",
        harmless_subcommands="run linters version",
    ),
    "gradle": ProgramSpec(
        "-q -i -s -x= --info --stacktrace --no-daemon --offline --tests= --console= --parallel"
        " --continue --quiet --rerun-tasks --dry-run -m --warning-mode= --version"
        " --build-cache --no-build-cache --configuration-cache --no-configuration-cache"
        " --max-workers= --full-stacktrace -S -d --debug --no-parallel --refresh-dependencies"
        " --rerun --fail-fast --daemon --no-watch-fs",
        harmless_subcommands="",
        has_target_operands=True,
    ),
    "helm": ProgramSpec(
        "-n= -A --namespace= -a", harmless_subcommands="list version status history"
    ),
    "isort": ProgramSpec("-c -q -v --check --check-only --diff --quiet --profile= -l= --version"),
    "jest": ProgramSpec(
        "-t= -i --coverage --ci --runInBand --silent --verbose --testNamePattern= --bail"
        " --testPathPattern= --passWithNoTests --maxWorkers= --watchAll= --no-cache --listTests"
        " --colors --no-coverage --detectOpenHandles --forceExit --version"
        " --shard= --logHeapUsage --no-watchman --onlyChanged --changedSince= --selectProjects="
        " --testTimeout= -w= --expand --errorOnDeprecated --watch"
    ),
    "kubectl": ProgramSpec(
        "-n= -A -l= -o= -w= -c= --namespace= --all-namespaces --selector= --output= --tail="
        " --since= --no-headers --show-labels --previous -p --short --client --context= --sort-by=",
        harmless_subcommands="get describe logs version top api-resources explain",
        unsafe_argument_pattern=r"-file\b|^(go-template|jsonpath|custom-columns)-file",
    ),
    "make": ProgramSpec(
        "-j# -k -s -n -B -q -w -i --jobs# --keep-going --silent --quiet --dry-run --just-print"
        " --always-make --no-print-directory --version --question --output-sync"
        " --warn-undefined-variables",
        unsafe_argument_pattern=r"^(?!--output-sync=(none|line|target|recurse)$).*=",
        has_target_operands=True,
    ),
    "mocha": ProgramSpec(
        "-g= -f= -b -t= --grep= --bail --timeout= --recursive --exit --dry-run --version"
        " --parallel --jobs= --slow= --check-leaks --forbid-only --forbid-pending --retries="
        " --inline-diffs --full-trace --no-color --no-timeouts"
    ),
    "mix": ProgramSpec(
        "--warnings-as-errors --cover --trace --only= --exclude= --include= --seed= --stale"
        " --max-failures= --failed --slowest= --check-formatted --dry-run --strict --color"
        " --no-color --force --all --partitions= --exit-status= --timeout= --raise --no-compile"
        " --check-unused --check-locked --no-deps-check",
        harmless_subcommands="help",
    ),
    "mvn": ProgramSpec(
        "-q -o -B -e -X -pl= -am -U -DskipTests -Dmaven.test.skip=true -v --version --quiet"
        " --offline --batch-mode --errors --no-transfer-progress -ntp --fail-at-end -fae -T="
        " -Dtest= -Dit.test= -DskipITs -V --show-version --update-snapshots --also-make -amd"
        " --projects= --fail-fast -ff --fail-never -fn -Dmaven.test.failure.ignore="
        " -Dmaven.javadoc.skip= -Dgpg.skip -Dcheckstyle.skip -Dspotbugs.skip -Dstyle.color="
        " -Dsurefire.failIfNoSpecifiedTests= -Dspotless.check.skip=",
        harmless_subcommands="",
        has_single_dash_options=True,
        unsafe_argument_pattern=":",
        has_target_operands=True,
    ),
    "mypy": ProgramSpec(
        "-p= -m= --strict --ignore-missing-imports --pretty --show-error-codes --no-incremental"
        " --no-error-summary --follow-imports= --no-color-output --show-column-numbers --version"
        " --exclude= --python-version= --warn-unused-ignores --check-untyped-defs -v"
        " --warn-unreachable --disallow-untyped-defs --platform= --namespace-packages"
        " --explicit-package-bases --disable-error-code= --enable-error-code= --show-error-context"
        " --no-implicit-optional --warn-return-any --warn-redundant-casts --strict-equality"
    ),
    "ninja": ProgramSpec("-j# -k# -v -n --quiet --verbose --version", has_target_operands=True),
    "nox": ProgramSpec(
        "-l -s= -e= -k= -t= -r -R -v --list --sessions= --reuse-existing-virtualenvs"
        " --non-interactive --error-on-missing-interpreters --no-install --stop-on-first-error"
        " --forcecolor"
    ),
    "npm": ProgramSpec(
        _NPM_OPTIONS,
        harmless_subcommands="ls list view info show outdated explain why ping search --version -v",
        unsafe_argument_pattern=_PACKAGE_URL_RE,
    ),
    "phpunit": ProgramSpec(
        "--filter= --testsuite= --group= --testdox --colors --stop-on-failure -v"
        " --no-coverage --stop-on-error --exclude-group= --order-by= --debug --fail-on-warning"
        " --fail-on-risky"
    ),
    "pip": ProgramSpec(
        "-q -v -U -r: -e: --upgrade --user --no-deps --dry-run --format= --outdated --quiet"
        " --no-cache-dir --version --requirement: --editable: --disable-pip-version-check --pre"
        " --group: --constraint: --force-reinstall --prefer-binary --upgrade-strategy="
        " --no-build-isolation --no-input --no-warn-script-location --progress-bar= --use-pep517"
        " --require-hashes --only-binary= --no-compile --root-user-action= --retries= --timeout="
        " --ignore-installed -c:",
        harmless_subcommands="list show freeze check --version index debug",
        unsafe_argument_pattern=_URL_ARGUMENT_RE,
    ),
    "playwright": ProgramSpec(
        "--project= -g= --grep= --grep-invert= -j= --workers= --retries= --headed --shard="
        " --timeout= --list --repeat-each= --max-failures= -x --forbid-only --fully-parallel"
        " --pass-with-no-tests --last-failed --quiet --browser= --trace= --reporter=",
        harmless_subcommands="--version",
        unsafe_argument_pattern=_REPORTER_RE,
    ),
    "poetry": ProgramSpec(
        "-q -v --no-interaction --tree --latest -n --no-root --sync --with= --without= --only="
        " --extras= -E= --all-extras --no-dev --no-ansi --dry-run --all-groups --lock",
        harmless_subcommands="show check about",
    ),
    "pre-commit": ProgramSpec(
        "-a -v --all-files --verbose --show-diff-on-failure --color= --hook-stage= --from-ref="
        " --to-ref= --files:",
        harmless_subcommands="--version",
    ),
    "prettier": ProgramSpec(
        "-c -l --check --list-different --ignore-unknown -u --version --no-color --log-level="
        " --no-error-on-unmatched-pattern --end-of-line="
    ),
    "pylint": ProgramSpec(
        "-E -j= --errors-only --disable= --enable= --jobs= --reports= --score= --recursive="
        " --version"
    ),
    "pyright": ProgramSpec("--outputjson --stats --warnings --verbose --version -v"),
    "pytest": ProgramSpec(_PYTEST_OPTIONS, unsafe_argument_pattern=_PYTEST_UNSAFE_RE),
    "rake": ProgramSpec(
        "-T -P -n -q -s -t= --tasks --dry-run --quiet",
        unsafe_argument_pattern="=",
        has_target_operands=True,
    ),
    "rspec": ProgramSpec(_RSPEC_OPTIONS),
    "rubocop": ProgramSpec(
        "--format= -f= --only= --parallel --display-cop-names -D -V --version"
        " --fail-level= --force-exclusion --no-parallel --color --no-color --lint --debug"
        " --extra-details --display-only-fail-level-offenses"
    ),
    "ruff": ProgramSpec(
        "-q -v --select= --ignore= --output-format= --statistics --diff --no-cache --show-files"
        " --check --line-length= --extend-select= --quiet --exit-zero --version --preview"
        " --no-fix --target-version=",
        harmless_subcommands="check rule version --version linter",
    ),
    "shellcheck": ProgramSpec(
        "-s= -S= -f= -e= -i= --shell= --severity= --format= --exclude= --version"
    ),
    "stylelint": ProgramSpec("--quiet --max-warnings= --color"),
    "swift": ProgramSpec(
        "-v -c= --configuration= --filter= --skip= --parallel --no-parallel --list-tests"
        " --enable-code-coverage --num-workers=",
        harmless_subcommands="--version",
    ),
    "terraform": ProgramSpec(
        "-no-color -json -check -diff -recursive -detailed-exitcode -input= -backend="
        " -lock= -upgrade -compact-warnings -parallelism= -refresh=",
        harmless_subcommands="version",
        has_single_dash_options=True,
    ),
    "tox": ProgramSpec(
        "-l -e= -f= -q -v -r -p= --list --recreate --parallel= --skip-missing-interpreters"
        " --skip-pkg-install --colored="
    ),
    "tsc": ProgramSpec(
        "-p: -b --project: --build --noEmit --pretty --skipLibCheck --strict --listFiles --version"
        " -v --showConfig --noErrorTruncation --incremental",
        unsafe_argument_pattern="^@",
    ),
    "unittest": ProgramSpec(
        "-b -c -f -k= -p= -q -s: -t: -v --buffer --catch --durations# --failfast --locals"
        " --pattern= --quiet --start-directory: --top-level-directory: --verbose"
    ),
    "uv": ProgramSpec(
        "-q -v --quiet --format= --outdated --depth= --locked --frozen --no-sync --offline --dev"
        " --no-dev --group= --no-group= --only-group= --all-groups --extra= --all-extras"
        " --all-packages --no-editable --no-install-project --refresh --no-progress --exact"
        " --no-cache --package= --no-default-groups --check"
        " --universal -U --upgrade -r: --requirement: --editable: --sdist --wheel",
        harmless_subcommands="--version",
        unsafe_argument_pattern=_URL_ARGUMENT_RE,
    ),
    "vitest": ProgramSpec(
        "-t= --run --coverage --testNamePattern= --silent --bail= --passWithNoTests"
        " --no-color --version --no-watch --watch= --shard= --project= --maxWorkers= --retry="
        " --coverage.enabled= --no-file-parallelism --changed --typecheck --reporter=",
        unsafe_argument_pattern=_REPORTER_RE,
    ),
    "yarn": ProgramSpec(
        _NPM_OPTIONS,
        harmless_subcommands="list why info outdated --version versions",
        unsafe_argument_pattern=_PACKAGE_URL_RE,
    ),
}
BUILD_PROGRAMS |= dict.fromkeys(
    ("apt", "apt-get", "apt-cache", "dnf", "yum", "apk", "snap"),
    ProgramSpec("-q -a --installed --upgradable", "list show search info policy"),
)
BUILD_PROGRAMS["pnpm"] = BUILD_PROGRAMS["npm"]
BUILD_PROGRAMS["gmake"] = BUILD_PROGRAMS["make"]
