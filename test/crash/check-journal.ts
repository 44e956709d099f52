import { execFile } from 'node:child_process'
import { createRequire } from 'node:module'
import { promisify } from 'node:util'

const CLI = createRequire(import.meta.url).resolve('#cli/main')
const LIMIT_MS = 60_000

export interface JournalCheck {
  readonly ok: boolean
  /** What the command said. */
  readonly text: string
}

/** Verifies the journal as an operator does: offline, by the command, in a process of its own. */
export async function checkJournal(folder: string, masterKey: string): Promise<JournalCheck> {
  const args = ['--conditions=source', '--disable-warning=ExperimentalWarning', CLI]
  const command = ['journal', 'verify', '--store', `sqlite:${folder}/collet.db`]
  const options = { cwd: folder, timeout: LIMIT_MS, env: { ...process.env, COLLET_KEY: masterKey } }
  try {
    const { stdout } = await promisify(execFile)(process.execPath, [...args, ...command], options)
    return { ok: true, text: stdout }
  } catch (error) {
    return { ok: false, text: error instanceof Error ? error.message : String(error) }
  }
}
