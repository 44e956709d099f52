/**
 * Processor time that this process has used since a call of `process.cpuUsage()`. Tests of bounds on work use it, because elapsed
 * time also includes the work of other programs.
 */
export function cpuMsSince(start: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(start)
  return (user + system) / 1_000
}
