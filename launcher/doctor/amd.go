package doctor

func amdChecks() []Check {
	return []Check{{
		ID: "kfd", Group: "gpu",
		What: "whether /dev/kfd and the render nodes of AMD's GPUs can be opened",
		Why:  "'Unable to open /dev/kfd read-write: Permission denied': ROCm needs the groups render and video, containers both devices.",
		Run: each(func(h *Host) []Finding {
			if h.AMD == nil {
				return nil
			}
			return refused(h.AMD.Nodes, func(bool) string {
				return choose(h, "docker run --device /dev/kfd --device /dev/dri --group-add video --group-add render ...", "sudo usermod -aG render,video $USER # then log in again")
			})
		}),
	}}
}
