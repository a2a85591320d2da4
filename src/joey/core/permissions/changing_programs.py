"""Programs that change files, reach out, or carry out what they read: what of it a rule that names
them alone covers."""

from __future__ import annotations

from joey.core.permissions.sheets import Sheet

_REMOTE = ":"
NOTHING = Sheet(first="")
"""Whatever it is told needs a rule of its own."""
WITHOUT_OPTIONS = Sheet()

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
    "pandoc": Sheet("-f= -s -t= --from= --standalone --to= --wrap="),
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
    "unzip": Sheet("-l -p -q -t -v -Z", needs="-l -p -t -v -Z"),
    "unzstd": Sheet("-c -l -k -t -q -v --stdout --list --test", needs="-c -l -t --stdout --test"),
    "xz": Sheet(_ZIPPING),
    "zip": Sheet("-0 -9 -j -q -v -x= -y"),
    "zstd": Sheet(_ZIPPING),
}

LANGUAGES = (
    "7z 7za 7zr ansible ansible-playbook ar at batch bpftrace csplit crontab"
    " dc ed emacs emacsclient ex expect gdb gnuplot gpg gpg2 jshell latexmk ldd lftp"
    " lldb lynx m4 magick mariadb mosquitto_sub mysql nano nvim nvimdiff openssl"
    " osascript patch pax pdflatex perf psql qemu-system-x86_64 rclone restic rview"
    " rvim sftp shar socat split sponge sqlite3 sshfs tclsh telnet tex texi2dvi"
    " unrar uuencode uudecode vi view vim vimdiff w3m wish xdg-open xelatex zsoelim"
)
"""What they are told is a program of its own, or names files nobody sees in the command line."""
UNKNOWN_OPTIONS = "ctags diff3 enscript groff info most nroff sdiff troff ug ugrep xsltproc"
"""Harmless without options, which nobody has looked through."""
