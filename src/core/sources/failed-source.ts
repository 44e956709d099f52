import { fault } from '#core/errors'
import type { Source, SourceHealth } from '#core/ports/source'
import type { SourceKind } from '#core/tool'

/** In the place of a source that could not be opened; its pinned tools stay listed and say why they do not run. */
export class FailedSource implements Source {
  readonly key: string
  readonly type: string
  readonly kind: SourceKind
  readonly #reason: string

  constructor({ key, type, kind }: Pick<Source, 'key' | 'type' | 'kind'>, error: unknown) {
    this.key = key
    this.type = type
    this.kind = kind
    this.#reason = error instanceof Error ? error.message : String(error)
  }

  discover(): Promise<never> {
    return Promise.reject(fault('upstream_failed', this.#reason))
  }

  invoke(): Promise<never> {
    return Promise.reject(
      fault('upstream_failed', 'The source of this tool cannot be opened.', {
        canRetry: true,
        developerMessage: this.#reason,
      }),
    )
  }

  health(): SourceHealth {
    return { state: 'down', reason: this.#reason }
  }

  close(): Promise<void> {
    return Promise.resolve()
  }
}
