/* A page that was opened as a file may start no Worker, and mkdocs-material's search runs in one. There an iframe does
   its work. On a server nothing of this is used. (mkdocs-material names a script of this name on a CDN otherwise.) */
"use strict"

class IFrameWorker extends EventTarget {
  constructor(url) {
    super()
    this.onmessage = null
    this.frame = document.createElement("iframe")
    this.frame.hidden = true
    document.body.appendChild(this.frame)
    const inside = this.frame.contentWindow
    window.addEventListener("message", event => {
      if (event.source !== inside) return
      const copy = new MessageEvent("message", { data: event.data })
      this.dispatchEvent(copy)
      if (this.onmessage) this.onmessage(copy)
    })
    /* What a Worker has in its global scope: postMessage to the page, and importScripts. */
    inside.document.open()
    inside.document.write(`<script>
      window.postMessage = message => parent.dispatchEvent(new MessageEvent("message", { data: message, source: window }))
      window.importScripts = (...urls) => Promise.all(urls.map(url => new Promise((resolve, reject) => {
        const script = document.createElement("script")
        script.src = url
        script.onload = resolve
        script.onerror = reject
        document.head.appendChild(script)
      })))
    </` + `script><script src="${url}"></` + "script>")
    inside.document.close()
    this.ready = new Promise(resolve => { inside.onload = resolve })
  }

  postMessage(data) {
    this.ready.then(() => this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data })))
  }

  terminate() {
    this.frame.remove()
  }
}

if (location.protocol === "file:") {
  window.IFrameWorker = IFrameWorker
  window.Worker = IFrameWorker
}
