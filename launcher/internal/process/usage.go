package process

// Usage returns the CPU time that the processes which exist now in each session
// have used so far.
func Usage(sessions []int) (map[int]Ticks, error) {
	used := make(map[int]Ticks, len(sessions))
	for _, sid := range sessions {
		used[sid] = 0
	}
	err := eachProc(func(p Proc) {
		if _, asked := used[p.SID]; asked {
			used[p.SID] += p.CPU
		}
	})
	return used, err
}
