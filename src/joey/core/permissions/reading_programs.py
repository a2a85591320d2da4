"""Programs that only look, as long as no option tells them otherwise."""

from __future__ import annotations

from joey.core.permissions.sheets import Sheet

_REMOTE = ":"
_SEARCH = (
    "-A# -B# -C# -E -F -G -H -I -P -S -U -a -c -e= -f: -h -i -l -m# -n -o -q -r -s -u -v -w -x -z"
    " --after-context# --before-context# --color --colour --context# --count --exclude="
    " --exclude-dir= --extended-regexp --files --files-with-matches --files-without-match"
    " --fixed-strings --glob= --heading --hidden --ignore-case --include= --invert-match"
    " --line-number --max-count# --no-filename --no-heading --no-ignore --no-messages"
    " --only-matching --perl-regexp --quiet --silent --recursive --regexp= --smart-case --sort="
    " --type= --type-not= --with-filename --word-regexp --line-regexp --basic-regexp --text"
    " --null --count-matches --trim --max-depth# --iglob= --column --stats --json --type-list"
    " --no-line-number --pretty --vimgrep --multiline --case-sensitive --file:"
)
_RIPGREP = (
    _SEARCH.replace(" -E ", " -E= ")
    .replace(" -r ", " -r= ")
    .replace(" -h ", " ")
    .replace(" -z ", " ")
    .replace(" --color ", " --color= ")
    + " -g= -t= -T= --replace= --encoding="
)
_COUNTED = "-n# -c# -q -v -z --lines# --bytes# --quiet --silent --verbose --zero-terminated"
_SUMS = "-b -t -z -w --binary --text --tag --zero --quiet --status"
_CHANGING_METHOD = (
    r"^(-\w*X|--request=)(?!(GET|HEAD|OPTIONS)$)\w"
    r"|^(?!(GET|HEAD|OPTIONS|localhost)$)[A-Za-z][\w-]*$"
)
"""Attached, or a word of its own: any name that a server may know as a method."""
_FLOW = "-4 -6 -n -u -v -w= -z"

READING: dict[str, Sheet] = {
    "base64": Sheet("-d -D -w= --decode --wrap= --ignore-garbage"),
    "ack": Sheet(
        "-1 -A# -B# -C# -H -Q -c -h -i -l -m# -n -o -v -w --ignore-case --literal --nocolor"
        " --nogroup --smart-case --word-regexp --count --files-with-matches",
        text="first",
    ),
    "ag": Sheet(
        "-A# -B# -C# -G= -H -Q -S -a -c -i -l -m# -n -o -s -v -w --count --files-with-matches"
        " --hidden --ignore-case --literal --nocolor --nogroup --smart-case --word-regexp",
        text="first",
    ),
    "basename": Sheet("-a -s= -z --multiple --suffix= --zero", text="all"),
    "bat": Sheet(
        "-A -H= -d -l= -n -p -r= --color= --decorations= --highlight-line= --language="
        " --line-range= --list-languages --list-themes --number --paging= --plain --show-all"
        " --style= --tabs= --terminal-width= --theme= --wrap="
    ),
    "cksum": Sheet("-a= --algorithm= --untagged --tag --raw --base64 --length="),
    "column": Sheet("-c= -s= -t -x --table --separator= --columns= --output-separator= -o="),
    "cpio": Sheet("-t -v --list --verbose", refused=_REMOTE),
    "curl": Sheet(
        "-4 -6 -A= -G -H= -I -L -S -X= -f -i -k -m= -s -v --compressed --connect-timeout= --fail"
        " --get --head --header= --http1.1 --http2 --include --insecure --location --max-time="
        " --request= --retry= --show-error --silent --user-agent= --verbose",
        refused=rf"^(-\w*|--\w+=)?@|[{{}}\[\]]|^(?!(?i:https?)://)[\w+.-]+://|{_CHANGING_METHOD}",
    ),
    "cut": Sheet(
        "-b= -c= -d= -f= -n -s -z --bytes= --characters= --delimiter= --fields= --complement"
        " --only-delimited --output-delimiter= --zero-terminated"
    ),
    "date": Sheet(
        "-I -Idate -Ihours -Iminutes -Is -Iseconds -Ins -R -d= -r: -u --date= --iso-8601"
        " --reference: --rfc-3339= --rfc-email --utc",
        operand=r"\+",
    ),
    "df": Sheet("-a -h -H -i -k -l -m -P -T -t= --total --human-readable --inodes --type="),
    "diff": Sheet(
        "-B -E -N -U= -Z -a -b -c -e -i -q -s -t -u -w -y --brief --color --context"
        " --ignore-all-space --ignore-blank-lines --ignore-case --ignore-space-change"
        " --minimal --new-file --side-by-side --suppress-common-lines --text --unified --width="
        " --report-identical-files --no-dereference --exclude= -x="
    ),
    "dirname": Sheet("-z --zero", text="all"),
    "du": Sheet(
        "-0 -a -b -c -d= -h -k -m -s -S -x -t= --all --apparent-size --bytes --total --max-depth="
        " --human-readable --summarize --separate-dirs --one-file-system --exclude= --si --time"
    ),
    "echo": Sheet(text="all"),
    "expr": Sheet(text="all"),
    "fd": Sheet(
        "-H -I -a -d= -e= -g -i -p -s -t= -E= --absolute-path --color= --extension= --full-path"
        " --glob --hidden --ignore-case --max-depth= --no-ignore --type= --exclude=",
        text="first",
    ),
    "file": Sheet("-L -b -i --brief --mime --mime-encoding --mime-type"),
    "find": Sheet(
        "-H -P -a -amin= -and -anewer: -atime= -cmin= -cnewer: -ctime= -daystart -depth -empty"
        " -executable -false -group= -iname= -inum= -ipath= -iregex= -links= -lname= -ls"
        " -maxdepth= -mindepth= -mmin= -mount -mtime= -name= -newer: -not -o -or -path= -perm="
        " -print -print0 -printf= -prune -quit -readable -regex= -regextype= -samefile: -size="
        " -true -type= -user= -wholename= -writable -xdev",
        single=True,
    ),
    "fzf": Sheet("-e -f= -i --exact --filter= --no-sort"),
    "grep": Sheet(_SEARCH.replace(" -S ", " ") + " -L", text="first"),
    "head": Sheet(_COUNTED),
    "hexdump": Sheet("-C -b -c -d -n= -o -s= -v -x"),
    "hg": Sheet(
        "-l# -p -q -r= -v --graph --limit= --patch --rev= --stat",
        first="annotate diff heads id log manifest root status summary tip",
        refused="://",
    ),
    "hostname": Sheet("-I -d -f -i -s", operands=0),
    "iconv": Sheet("-c -f= -l -s -t= --from-code= --list --to-code="),
    "jobs": Sheet("-l -n -p -r -s"),
    "journalctl": Sheet("-u= -n= -b -k -p= -x -e -r -o= --since= --until= --no-pager --unit="),
    "jq": Sheet(
        "-r -c -e -s -S -M -C -n -R -j -a --raw-output --compact-output --exit-status --slurp"
        " --sort-keys --monochrome-output --color-output --null-input --raw-input --join-output"
        " --ascii-output --tab --indent= --arg== --argjson== --version",
        text="first",
        refused=r"\b(import|include|modulemeta)\b",
    ),
    "less": Sheet("-E -F -M -N -R -S -X -e -g -i -m -n -r -s", refused=r"^\+"),
    "lsof": Sheet("-P -a -i= -l -n -p= -t -u="),
    "ls": Sheet(
        "-1 -A -B -C -F -G -I= -N -Q -R -S -T= -U -X -Z -a -b -c -d -f -g -h -i -k -l -m -n -o"
        " -p -q -r -s -t -u -v -w= -x --all --almost-all --author --block-size= --classify"
        " --color --directory --file-type --format= --full-time --group-directories-first"
        " --hide= --human-readable --ignore= --indicator-style= --inode --literal --no-group"
        " --numeric-uid-gid --quote-name --quoting-style= --recursive --reverse --si --size"
        " --sort= --time= --time-style= --width= --zero"
    ),
    # A page of one's own may take in any file.
    "man": Sheet("-a -f -k -s= -w --all --apropos --sections= --whatis --where", refused="/"),
    "md5sum": Sheet(_SUMS),
    "more": Sheet("-d -f -l -c -s -u -n#", refused=r"^\+"),
    "netstat": Sheet("-4 -6 -a -e -i -l -n -o -p -r -s -t -u -x", operands=0),
    "nc": Sheet(_FLOW, needs="-z"),
    "nm": Sheet("-A -C -D -S -a -g -n -p -r -u", refused="^@"),
    "pgrep": Sheet("-a -c -d= -f -i -l -n -o -u= -x", text="all"),
    "ping": Sheet("-4 -6 -W= -c= -n -q -w=", text="all"),
    "printf": Sheet(text="all"),
    "ps": Sheet(
        "-A -a -d -e -f -F -H -L -l -o= -p= -u= -U= -w -x --forest --no-headers --sort=", text="all"
    ),
    "rg": Sheet(_RIPGREP, text="first"),
    "seq": Sheet("-f= -s= -w --format= --separator= --equal-width", text="all"),
    "shuf": Sheet("-e -i= -n= -r -z"),
    "sleep": Sheet(text="all"),
    "sort": Sheet(
        "-M -V -b -c -d -f -g -h -i -k= -n -r -s -t= -u -z --field-separator= --ignore-case --check"
        " --key= --numeric-sort --reverse --stable --unique --version-sort --human-numeric-sort"
        " --general-numeric-sort --month-sort --ignore-leading-blanks --dictionary-order"
    ),
    "ss": Sheet("-4 -6 -a -e -i -l -m -n -o -p -r -s -t -u -x", text="all"),
    "ssh-keygen": Sheet("-l -v", first=""),
    "strings": Sheet("-a -f -n= -t= -e= --all --bytes= --radix=", refused="^@"),
    "stat": Sheet("-c= -f -t --format= --printf= --terse --file-system"),
    "svn": Sheet(
        "-c= -l= -q -r= -u -v --limit= --revision= --summarize --verbose --xml",
        first="blame cat diff info list log ls status",
        refused="://",
    ),
    "systemctl": Sheet(
        "-l -n= -a -q --no-pager --all --failed --type= --state=",
        first="status list-units list-unit-files is-active is-enabled show cat",
    ),
    "tail": Sheet(_COUNTED),
    "test": Sheet(
        "-a -b -c -d -e -ef -eq -f -ge -gt -h -k -L -le -lt -n -ne -nt -o -ot -p -r -s -t -u"
        " -w -x -z",
        single=True,
    ),
    "top": Sheet("-1 -H -b -c -i -n= -o= -p= -u=", text="all"),
    "tr": Sheet("-c -C -d -s -t --complement --delete --squeeze-repeats", text="all"),
    "tree": Sheet("-C -D -F -I= -L= -P= -a -d -f -h -i -n -p -s -J --dirsfirst --gitignore"),
    "uniq": Sheet("-c -d -f= -i -s= -u -w= -z --count --repeated --unique", operands=1),
    "wait": Sheet("-f -n"),
    "wc": Sheet("-c -m -l -L -w --bytes --chars --lines --max-line-length --words"),
    "wget": Sheet(
        "-4 -6 -S -T= -nc -nv -q -t= --no-verbose --quiet --server-response --spider",
        needs="--spider",
    ),
    "xmllint": Sheet("--format --nonet --noout --xpath=", refused="://"),
    # Of an option without a value it reads the first letter: `-ps`, `-pl` and `-p` are one.
    "xxd": Sheet("-c= -g= -l= -p -s= -u", operands=1, refused="^-[pu].", ordered=True),
    "zcat": Sheet("-f -q -v"),
    "yq": Sheet(
        "-C -M -P -r -o= --output-format= --unwrapScalar -e -N",
        refused=r"\b(load\w*|strload|system|env\w*|strenv|input_filename|import|include)\b"
        r"|\beval *\(",
    ),
}
for _name in ("bzcat", "xzcat", "zstdcat"):
    READING[_name] = READING["zcat"]
for _name in ("sha1sum", "sha224sum", "sha256sum", "sha384sum", "sha512sum", "b2sum"):
    READING[_name] = READING["md5sum"]

PLAIN = (
    "base32 basenc cal cat cmp comm expand factor false fmt fold free groups id"
    " join lscpu lsblk nl nproc numfmt od paste pr printenv pwd readlink realpath rev tac true tty"
    " type uname unexpand uptime which who whoami whereis sum tsort look cd pushd popd dirs"
)
"""Nothing but readers: no option of theirs changes or runs anything."""
