# start.sh's words for a gorun that is installed on the host (--agent).
gr_m=@MARK1@; gr_n=@MARK2@
say() { printf "%s%s %s\n" $gr_m $gr_n "$*"; }
@WORDS@
command -v @AGENT@ >/dev/null 2>&1 || { say missing; exit 0; }
say run
exec @AGENT@ @ARGS@
