"""Programs that change files, reach out, or carry out what they read: what of it a rule that names
them alone covers."""

from __future__ import annotations

from joey.core.permissions.sheets import Sheet

_REMOTE = ":"
NOTHING = Sheet(first="")
"""Whatever it is told needs a rule of its own."""

_MOVING = "-f -i -n -u -v -t: --force --interactive --no-clobber --update --verbose"
_ZIPPING = (
    "-1 -9 -c -f -k -l -q -t -v --stdout --keep --list --quiet --test --verbose --best --fast"
)
_MODES = "-c -f -v --changes --silent --quiet --verbose"

CHANGING: dict[str, Sheet] = {
    "bzip2": Sheet(_ZIPPING),
    "bunzip2": Sheet("-c -k -t -q -v --stdout --test", needs="-c -t --stdout --test"),
    "chgrp": Sheet(_MODES),
    "chmod": Sheet(_MODES + " --reference:"),
    "chown": Sheet(_MODES),
    "cp": Sheet(_MOVING + " -p --preserve --target-directory:"),
    "dd": Sheet(refused="^(?!(if|of|bs|ibs|obs|count|skip|seek|conv|status)=)"),
    "gunzip": Sheet("-c -l -k -t -q -v --stdout --list --test", needs="-c -l -t --stdout --test"),
    "gzip": Sheet(_ZIPPING),
    "install": Sheet("-C -D -d -m= -p -v -t: --directory --mode= --verbose"),
    "kill": Sheet("-l -s= -n= -0 -1 -2 -9 -15", text="all"),
    "ln": Sheet("-s -f -n -r -v -i --symbolic --force --relative --verbose"),
    "mkdir": Sheet("-p -v -m= --parents --verbose --mode="),
    "mv": Sheet(_MOVING + " --target-directory:"),
    "rm": Sheet("-f -i -I -v --force --verbose --interactive"),
    "rmdir": Sheet("-p -v --parents --verbose"),
    "rsync": Sheet(
        "-a -h -n -r -t -v -z --archive --dry-run --exclude= --progress --stats --verbose",
        refused=_REMOTE,
    ),
    "scp": Sheet("-C -p -q", refused=_REMOTE),
    "tar": Sheet(
        "-J -f: -j -t -v -z --exclude= --list --verbose --file: --gzip",
        refused=":|^@",
        bundled=True,
    ),
    "tcpdump": Sheet("-A -X -c= -e -i= -n -q -v"),
    "tee": Sheet("-a -i -p --append --ignore-interrupts"),
    "touch": Sheet("-a -c -d= -h -m -r: -t= --no-create --date= --reference:"),
    "truncate": Sheet("-c -o -r: -s= --no-create --size= --reference:"),
    "unxz": Sheet("-c -l -k -t -q -v --stdout --list --test", needs="-c -l -t --stdout --test"),
    "unzip": Sheet("-l -p -q -t -v -Z", needs="-l -p -t -v -Z", ordered=True),
    "unzstd": Sheet("-c -l -k -t -q -v --stdout --list --test", needs="-c -l -t --stdout --test"),
    "xz": Sheet(_ZIPPING),
    "zip": Sheet("-0 -9 -j -q -v -x= -y"),
    "zstd": Sheet(_ZIPPING),
}

LANGUAGES = (
    "7z 7za 7zr ab abcl acr alpine animate ansible ansible-console ansible-galaxy"
    " ansible-playbook ansible-pull ansible-test apache2 apache2ctl apport-cli ar aria2c arj arp"
    " as ascii-xfr aspell asterisk at atobm autoconf autoheader automake autoreconf aws az batch"
    " bazel bb bconsole bmake boot bpftrace bridge bundler busctl byebug c++ c89 c99 cabal cancel"
    " casperjs cc cdist certbot chattr chez clang clang++ clickhouse clickhouse-client"
    " clickhouse-local clisp clj cobc cockroach code codex compare composite convert cpan cpp"
    " crash crontab cscript csi csplit csvtool ctr cupsfilter d8 daphne dart2native dc debugfs"
    " dhclient dialog display distcc dmsetup dnsmasq dos2unix dosbox dotnet-script dpkg-deb"
    " dpkg-reconfigure duckdb dvips easy_install easyrsa eb ecl ed efax electron emacs emacsclient"
    " enscript eqn escript esno espeak ex exiftool expect fail2ban-client fennel ffmpeg"
    " file-rename flower forge ftp g++ gcc gcloud gcore gdb genisoimage gforth ghc ghci gimp ginsh"
    " gnuplot gosh gpg gpg2 gprolog graalpy groff groovysh gsi gtester gunicorn hhvm highlight"
    " hping3 http httpie https hy hypercorn idle import influx ip iptables ipy ispell iverilog"
    " janet jar javac jbang jimsh jjs joe jruby jrunscript jsc jshell jtag jupyter just k6 knife"
    " kotlin kotlinc kscript ksshell latex latexmk ld ldconfig ldd lean lftp libreoffice links"
    " litecli lldb localc locust loginctl logrotate lp lpr lualatex luatex lwp-download"
    " lwp-request lxc lxd lynx m4 mage magick mail mailx mariadb micropython minicom mit-scheme"
    " mkfs mkswap mmv mogrify mono montage moon mosquitto mosquitto_sub mount mruby msfconsole"
    " msgfilter msmtp mutt mycli mysql nail nano nasm ncdu ncftp needrestart newgrp newlisp nft"
    " nginx nmap node-gyp nroff ntpdate nvim nvimdiff nw opencode openssl openvpn opkg osascript"
    " pandoc papermill passwd patch pax pdb pdflatex pdftex perf perl-rename perl6 perlbug pforth"
    " pgcli phantomjs pic pico picolisp pip-compile pkg plymouth pmake pre-commit premake5 prename"
    " procmail protoc pry psftp psql ptipython ptpython puppet py pydoc pyinstaller pyston"
    " qemu-system-x86_64 qjs qmake qpdf quarto ranger rbx rc rclone red redcarpet rename restic"
    " rhino rpm rpmdb rpmquery rpmverify rsyslogd rtorrent run-mailcap runhaskell runscript rustc"
    " rustdoc rustup rview rvim s-nail sage scanmem scheme sclang scrot sendmail service setcap"
    " setfacl sftp shar shred slsh smbclient socat socket soelim soffice split sponge sqlcmd"
    " sqlite3 sqlmap ssh-copy-id sshfs streamlit strip swaks swapoff swapon swipl sysctl"
    " systemd-resolve tailscale task tasksh tbl tclsh tdbtool telnet tex texi2dvi texlua tftp tic"
    " timedatectl troff truffleruby ug umount unrar unsquashfs update-alternatives urlget usql"
    " uudecode uuencode uvicorn v vagrant vi vidir view vigr vim vimdiff vipw virsh volatility vvp"
    " w3m wall wasmedge wasmer wasmtime whiptail wish wscript xdg-open xdotool xelatex xetex xh"
    " xmodmap xpad xsltproc yap yelp yt-dlp zathura zic zsoelim zx zypper"
)
"""What they are told is a program of its own, or names files nobody sees in the command line."""
UNFAMILIAR = Sheet(
    "--check --color --colour --dry-run --help --json --no-color --no-colour --quiet --silent"
    " --verbose --version"
)
"""Of a program that nobody has looked through: what these mean everywhere."""

COMMANDED = (
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
    " localectl losetup luarocks makepkg mamba mc meson micromamba mill minikube mise mix mkfifo"
    " mknod mlflow modprobe mongoimport mongorestore multipass mvnd mysqladmin mysqldump nerdctl"
    " netlify netplan networksetup ng nim nix nix-build nix-env nix-shell nomad nuget nvm nx oc"
    " oci opam open oras overmind packer pacman pants parted paru pdm pear pecl pg_ctl pg_restore"
    " pipenv pkill plz pm2 pod podman-compose poe port poweroff prefect prisma pulumi pyenv"
    " rabbitmqctl rails rbenv rebar3 reboot redis-cli renice repo rmmod route rush rye s3cmd salt"
    " salt-call sam sbt scons scoop scrapy scutil sdk serverless setfattr sfdisk shutdown skaffold"
    " skill skopeo sl sls softwareupdate sops stack start stow supabase supervisorctl svnadmin"
    " tccutil tea telinit terragrunt tilt tofu turbo twine ufw useradd userdel usermod vault"
    " vboxmanage velero vercel visudo volta vue waf wasm-pack winget wipefs wp wrangler wsk xattr"
    " xbps-install xcodebuild xmake yay zig"
)
"""Do what their first word says: run, deploy, delete, install, or act on the machine."""
TOLD = Sheet(UNFAMILIAR.options, first="")
