import { execFile } from 'node:child_process'
import { createRequire } from 'node:module'

const CLI = createRequire(import.meta.url).resolve('#cli/main')
/** More than any run writes. */
const LIMIT_MS = 30 * 60_000

export interface JournalCheck {
  readonly ok: boolean
  /** Output of the command. */
  readonly text: string
}

/** Verifies the journal as an operator does: offline, with the command, in a separate process. */
export function checkJournal(store: string, masterKey: string, folder: string): Promise<JournalCheck> {
  const nodeOptions = ['--conditions=collet-source', '--disable-warning=ExperimentalWarning']
  const command = [CLI, 'journal', 'verify', '--store', store]
  const options = { cwd: folder, timeout: LIMIT_MS, env: { ...process.env, COLLET_KEY: masterKey } }
  return new Promise((resolve) => {
    execFile(process.execPath, [...nodeOptions, ...command], options, (error, stdout, stderr) => {
      resolve({ ok: error === null, text: `${stdout}${stderr}`.trim() })
    })
  })
}
