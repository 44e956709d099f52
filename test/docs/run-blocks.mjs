// Imports files one after the other in this one process, and prints what each wrote with console.log: a JSON list of lists of lines.

import { pathToFileURL } from 'node:url'
import { format } from 'node:util'

const printed = []
const print = console.log
for (const file of process.argv.slice(2)) {
  const lines = []
  console.log = (...said) => lines.push(...format(...said).split('\n'))
  try {
    await import(pathToFileURL(file).href)
  } catch (error) {
    lines.push(`${error?.stack ?? error}`)
  }
  printed.push(lines)
}
print(JSON.stringify(printed))
process.exit()
