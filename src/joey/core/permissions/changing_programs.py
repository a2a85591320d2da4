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
    "7z 7za 7zr ab acr alpine ansible ansible-galaxy ansible-playbook ansible-test apache2"
    " apache2ctl apport-cli ar aria2c arj arp as ascii-xfr aspell asterisk at atobm autoconf"
    " autoheader automake autoreconf aws az batch bazel bconsole bpftrace bridge bundler busctl"
    " byebug c++ c89 c99 cabal cancel cc cdist certbot chattr clang clang++ clisp cobc code codex"
    " cpan cpp crash crontab csplit csvtool ctr cupsfilter dc debugfs dhclient dialog distcc"
    " dmsetup dnsmasq dos2unix dosbox dpkg-deb dpkg-reconfigure dvips easy_install easyrsa eb ed"
    " efax emacs emacsclient enscript eqn espeak ex exiftool expect fail2ban-client ffmpeg forge"
    " ftp g++ gcc gcloud gcore gdb genisoimage ghc ghci gimp ginsh gnuplot gpg gpg2 groff gtester"
    " highlight hping3 ip iptables ispell jar javac jjs joe jrunscript jshell jtag just knife"
    " ksshell latex latexmk ld ldconfig ldd lftp links lldb loginctl logrotate lp lpr lualatex"
    " luatex lwp-download lwp-request lxc lxd lynx m4 magick mail mailx mariadb minicom mkfs"
    " mkswap mosquitto mosquitto_sub mount msfconsole msgfilter mutt mysql nano nasm ncdu ncftp"
    " needrestart newgrp nft nginx nmap nroff ntpdate nvim nvimdiff opencode openssl openvpn opkg"
    " osascript pandoc passwd patch pax pdb pdflatex pdftex perf perlbug pic pico pip-compile pkg"
    " plymouth pre-commit procmail protoc pry psftp psql puppet qemu-system-x86_64 qpdf ranger rc"
    " rclone red redcarpet restic rpm rpmdb rpmquery rpmverify rsyslogd rtorrent run-mailcap"
    " runscript rustc rustdoc rustup rview rvim scanmem scrot service setcap setfacl sftp shar"
    " shred slsh smbclient socat socket soelim split sponge sqlite3 sqlmap ssh-copy-id sshfs strip"
    " swapoff swapon sysctl systemd-resolve tailscale task tasksh tbl tclsh tdbtool telnet tex"
    " texi2dvi tftp tic timedatectl troff ug umount unrar unsquashfs update-alternatives urlget"
    " uudecode uuencode vagrant vi view vigr vim vimdiff vipw virsh volatility w3m wall whiptail"
    " wish xdg-open xdotool xelatex xetex xmodmap xpad xsltproc yelp yt-dlp zathura zic zsoelim"
    " zypper"
)
"""What they are told is a program of its own, or names files nobody sees in the command line."""
UNFAMILIAR = Sheet(
    "--check --color --colour --dry-run --help --json --no-color --no-colour --quiet --silent"
    " --verbose --version"
)
"""Of a program that nobody has looked through: what these mean everywhere."""

COMMANDED = (
    "act adduser alembic amplify ansible-vault ant argocd artisan asdf blkdiscard buck buck2"
    " buildah bzr capacitor cargo-binstall cdk cdktf chezmoi chfn choco chpasswd chsh colima"
    " consul cordova corepack createdb createuser crictl cryptsetup crystal dagger darcs dart"
    " defaults deluser direnv diskutil django-admin docker-compose docker-machine doctl dpkg"
    " dropdb dropuser drush dune earthly eas eksctl emerge etcdctl expo fab fdisk firebase"
    " firewall-cmd flask flatpak flutter fly flyctl fnm forever fossil fuser git-lfs glab groupadd"
    " groupdel grunt guix gulp halt hatch helmfile heroku hostnamectl ibmcloud ifconfig init"
    " insmod inv invoke ionic istioctl jenv jj k3d k3s killall kind kops kustomize launchctl lein"
    " lerna lima limactl linode-cli localectl losetup meson mill minikube mise mix mkfifo mknod"
    " modprobe mongoimport mongorestore multipass mysqladmin mysqldump nerdctl netlify netplan"
    " networksetup ng nim nix nix-build nix-env nix-shell nomad nvm nx oc oci opam open packer"
    " pacman pants parted pdm pg_ctl pg_restore pipenv pkill pm2 port poweroff prisma pulumi pyenv"
    " rabbitmqctl rails rbenv rebar3 reboot redis-cli renice repo rmmod route rush rye sam sbt"
    " scons scoop scutil sdk serverless setfattr sfdisk shutdown skaffold skill skopeo sl sls"
    " softwareupdate stack start stow supabase supervisorctl svnadmin tccutil telinit terragrunt"
    " tilt tofu turbo twine ufw useradd userdel usermod vault vboxmanage vercel visudo volta vue"
    " waf winget wipefs wp wrangler wsk xattr xbps-install yay zig"
)
"""Do what their first word says: run, deploy, delete, install, or act on the machine."""
TOLD = Sheet(UNFAMILIAR.options, first="")
