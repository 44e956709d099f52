/** Tells the parent where the server listens, and ends it when the parent says so or is gone. */
export function announce(port: number, close: () => Promise<void> | void): void {
  const end = async (): Promise<void> => {
    await close()
    process.exit(0)
  }
  process.once('SIGTERM', end)
  process.stdin.resume().once('end', end)
  process.stdout.write(`ready ${port}\n`)
}
