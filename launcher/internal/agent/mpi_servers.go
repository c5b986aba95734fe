package agent

func (a *Agent) makers() mpiMakers { return mpiMakers{} }
