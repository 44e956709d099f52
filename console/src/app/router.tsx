import { createRootRoute, createRoute, createRouter } from '@tanstack/react-router'
import { lazyPart } from '../parts/lazy-part.tsx'
import { Frame, NoSuchPage, PageFailed } from './frame.tsx'
import { readSearch, writeSearch } from './search-state.ts'

/*
 * The addresses of the console and their pages. Used by `main.tsx`. A page is loaded when it is opened.
 */

const root = createRootRoute({
  component: Frame,
  notFoundComponent: NoSuchPage,
  errorComponent: PageFailed,
})

/** These pages need a sign-in even on an open server, which serves its tools and Try it to everyone. */
const NEEDS_SIGN_IN = { needsSignIn: true }

const start = createRoute({
  getParentRoute: () => root,
  path: '/',
  component: lazyPart(async () => (await import('../places/start/page.tsx')).StartPage),
})

const overview = createRoute({
  getParentRoute: () => root,
  path: '/overview',
  staticData: NEEDS_SIGN_IN,
  component: lazyPart(async () => (await import('../places/overview/page.tsx')).OverviewPage),
})

const tools = createRoute({
  getParentRoute: () => root,
  path: '/tools',
  component: lazyPart(async () => (await import('../places/tools/page.tsx')).ToolsPage),
})

const models = createRoute({
  getParentRoute: () => root,
  path: '/models',
  component: lazyPart(async () => (await import('../places/models/page.tsx')).ModelsPage),
})

const tool = createRoute({
  getParentRoute: () => root,
  path: '/tools/$id',
  component: lazyPart(async () => (await import('../places/tool/page.tsx')).ToolPage),
})

const calls = createRoute({
  getParentRoute: () => root,
  path: '/calls',
  staticData: NEEDS_SIGN_IN,
  component: lazyPart(async () => (await import('../places/calls/page.tsx')).CallsPage),
})

const conversation = createRoute({
  getParentRoute: () => root,
  path: '/calls/conversation',
  staticData: NEEDS_SIGN_IN,
  component: lazyPart(async () => (await import('../places/calls/conversation.tsx')).ConversationPage),
})

const call = createRoute({
  getParentRoute: () => root,
  path: '/calls/$record',
  staticData: NEEDS_SIGN_IN,
  component: lazyPart(async () => (await import('../places/calls/call-page.tsx')).CallPage),
})

const approvals = createRoute({
  getParentRoute: () => root,
  path: '/approvals',
  staticData: NEEDS_SIGN_IN,
  component: lazyPart(async () => (await import('../places/approvals/page.tsx')).ApprovalsPage),
})

/** The inbox and one decision are one page: `id` is the open approval. */
const approval = createRoute({ getParentRoute: () => approvals, path: '$id' })

const sources = createRoute({
  getParentRoute: () => root,
  path: '/sources',
  staticData: NEEDS_SIGN_IN,
  component: lazyPart(async () => (await import('../places/sources/page.tsx')).SourcesPage),
})

const access = createRoute({
  getParentRoute: () => root,
  path: '/access',
  staticData: NEEDS_SIGN_IN,
  component: lazyPart(async () => (await import('../places/access/page.tsx')).AccessPage),
})

const audit = createRoute({
  getParentRoute: () => root,
  path: '/audit',
  staticData: NEEDS_SIGN_IN,
  component: lazyPart(async () => (await import('../places/audit/page.tsx')).AuditPage),
})

const settings = createRoute({
  getParentRoute: () => root,
  path: '/settings',
  component: lazyPart(async () => (await import('../places/settings/page.tsx')).SettingsPage),
})

export const router = createRouter({
  routeTree: root.addChildren([
    start,
    overview,
    tools,
    models,
    tool,
    calls,
    conversation,
    call,
    approvals.addChildren([approval]),
    sources,
    access,
    audit,
    settings,
  ]),
  // The server may be below a path, which is part of the page's base.
  basepath: new URL(document.baseURI).pathname,
  parseSearch: readSearch,
  stringifySearch: writeSearch,
  defaultPreload: 'intent',
  // Wraps each page, so that an error in a page leaves the navigation intact.
  defaultErrorComponent: PageFailed,
})

declare module '@tanstack/react-router' {
  interface Register {
    router: typeof router
  }
  interface StaticDataRouteOption {
    needsSignIn?: boolean
  }
}
