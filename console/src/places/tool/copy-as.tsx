import { type ReactNode, useMemo, useState } from 'react'
import { newCallId } from '../../api/call-id.ts'
import { useSession } from '../../api/session.ts'
import { Code } from '../../parts/code.tsx'
import { Segment } from '../../parts/tabs.tsx'
import { type CopiedCall, LANGUAGES, type Language, PROTOCOLS, type Protocol, snippetOf } from './snippets.ts'
import type { ToolDetails } from './tool-data.ts'
import { WORDS } from './words.tsx'

/*
 * Shows the call as code in several languages and protocols, with a placeholder for the key. `try-panel.tsx` uses it.
 */

/** The call as code in several languages and protocols, with a placeholder for the key. */
export function CopyAs({ tool, input, userId }: CopyAsProps): ReactNode {
  const [language, setLanguage] = useState<Language>('curl')
  const [protocol, setProtocol] = useState<Protocol>('OTC')
  const call = useCopied({ tool, input, userId })
  const text = snippetOf(language, protocol, call)
  return (
    <section className="copy-part" aria-label={WORDS.copyAs}>
      <div className="copy-as">
        <Segment
          label={WORDS.language}
          value={language}
          options={LANGUAGES.map((value) => ({ value, label: value }))}
          onChange={setLanguage}
        />
        <span className="dim">{WORDS.over}</span>
        <Segment
          label={WORDS.protocol}
          value={protocol}
          options={PROTOCOLS.map((value) => ({ value, label: value }))}
          onChange={setProtocol}
        />
      </div>
      <Code text={text} label={WORDS.callAsOver(language, protocol)} />
    </section>
  )
}

interface CopyAsProps {
  readonly tool: ToolDetails
  readonly input: unknown
  readonly userId: string | undefined
}

/** A tool that changes something gets an idempotency key, a new one for each input. */
function useCopied({ tool, input, userId }: CopyAsProps): CopiedCall {
  const session = useSession()
  const hasEffects = tool.policy.tier === 'write' || tool.policy.tier === 'exec'
  const { callId, runId } = useMemo(() => {
    void input
    return { callId: newCallId(), runId: `run-${newCallId().slice(0, 8)}` }
  }, [input])
  return {
    tool,
    input,
    url: (session?.server.url ?? location.origin).replace(/\/$/, ''),
    needsKey: session?.server.isOpen === false,
    callId: hasEffects ? callId : undefined,
    runId,
    userId,
  }
}
