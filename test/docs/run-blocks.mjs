// Imports files one after the other in this one process, and prints what each wrote to its console: a JSON list of lists of lines.
import { pathToFileURL } from 'node:url'
import { format } from 'node:util'

const printed = []
for (const file of process.argv.slice(2)) {
  const lines = []
  globalThis.console.log = (...said) => lines.push(...format(...said).split('\n'))
  try {
    await import(pathToFileURL(file).href)
  } catch (error) {
    lines.push(`${error?.stack ?? error}`)
  }
  printed.push(lines)
}
process.stdout.write(JSON.stringify(printed), () => process.exit())
