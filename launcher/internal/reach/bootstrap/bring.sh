# $1 bytes of standard input to standard output. Nobody on this host has a lease yet, and sshd notices a cut cable after hours: so
# the reader is ended once none has come for 20 seconds, as the kernel counts them. The one who looks sleeps by reading from the
# reader, so that nothing is left of it when that ends. Where there is no timeout, or no count, the reader waits.
bring() {
timeout 5 true 2>/dev/null || { head -c "$1"; return; }
{ { /bin/sh -c "echo \$\$ >&3; exec head -c $1 3>&-" >&4 4>&-; echo $?; } 3>&1 | overlook 4>&-; } 4>&1
}
overlook() {
read -r gr_p; gr_l=; gr_e=0
until gr_s=$(timeout 5 cat); do
gr_q=; { read -r gr_q </proc/$gr_p/io; } 2>/dev/null
if [ "$gr_q" ] && [ "$gr_q" = "$gr_l" ]; then gr_e=$((gr_e+1)); else gr_e=0; gr_l=$gr_q; fi
[ $gr_e -lt 4 ] || { kill -9 $gr_p; echo "nothing came for 20 seconds" >&2; return 1; }
done
return ${gr_s:-1}
}
