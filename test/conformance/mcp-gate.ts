import type { DefinedTool } from '#kernel/tool/define'
import { tool } from '#kernel/tool/define'
import type { SafetyTier } from '#kernel/tool/tool'

/** A tool that waits until the test releases it, and reports its start and its outcome. */
export class Gate {
  readonly #begun = Promise.withResolvers<void>()
  readonly #opened = Promise.withResolvers<string>()
  readonly #aborted = Promise.withResolvers<void>()
  runs = 0

  get begun(): Promise<void> {
    return this.#begun.promise
  }

  get aborted(): Promise<void> {
    return this.#aborted.promise
  }

  get opened(): Promise<string> {
    return this.#opened.promise
  }

  open(value = 'through'): void {
    this.#opened.resolve(value)
  }

  tool(safetyTier: SafetyTier = 'write', id = 'Gate.Pass@1.0.0'): DefinedTool {
    return tool({
      id,
      description: 'Waits at a gate.',
      input: {},
      output: { type: 'string' },
      policy: { safetyTier },
      run: (_input, { signal }) => {
        this.runs += 1
        signal.addEventListener('abort', () => this.#aborted.resolve())
        this.#begun.resolve()
        return this.#opened.promise
      },
    })
  }
}
