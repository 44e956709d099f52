import type { ReactNode } from 'react'
import { useEcho } from '../../app/echo.tsx'
import { Page } from '../../app/page.tsx'
import { Empty } from '../../parts/states.tsx'
import './connections.css'

export function ConnectionsPage(): ReactNode {
  useEcho('collet sources')
  return (
    <Page title="Connections">
      <Empty title="Sources come here" />
    </Page>
  )
}
