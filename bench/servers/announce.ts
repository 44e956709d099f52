/** Tells the parent where the server listens and what it costs; ends when the parent says so or is gone. */
export function announce(port: number, close: () => Promise<void> | void): void {
  const end = async (): Promise<void> => {
    await close()
    process.exit(0)
  }
  process.once('SIGTERM', end)
  process.once('disconnect', end)
  process.on('message', () => process.send?.(process.cpuUsage()))
  process.stdout.write(`ready ${port}\n`)
}
