/** Tells the parent where the server listens, and ends it when the parent says so. */
export function announce(port: number, close: () => Promise<void> | void): void {
  process.once('SIGTERM', async () => {
    await close()
    process.exit(0)
  })
  process.stdout.write(`ready ${port}\n`)
}
