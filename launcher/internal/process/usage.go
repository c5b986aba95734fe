package process

// Usage returns the CPU time that the processes which exist now in each session
// have used so far.
func Usage(sessions []int) (map[int]Ticks, error) {
	proc, err := openProc()
	if err != nil {
		return nil, err
	}
	defer proc.close()
	pids, err := proc.pids()
	if err != nil {
		return nil, err
	}
	used := make(map[int]Ticks, len(sessions))
	for _, sid := range sessions {
		used[sid] = 0
	}
	for _, pid := range pids {
		p, ok := proc.stat(pid)
		if _, asked := used[p.SID]; ok && asked {
			used[p.SID] += p.CPU
		}
	}
	return used, nil
}
