/**
 * Processor time that this process has used since `process.cpuUsage()` was asked. What a bound on work is tested with:
 * time on the clock also counts what other programs do.
 */
export function cpuMsSince(start: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(start)
  return (user + system) / 1_000
}
