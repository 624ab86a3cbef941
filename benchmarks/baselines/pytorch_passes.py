"""What PyTorch's programs time of a recurrent layer."""


def pass_of_layer(name, net, x, y_gradient, call):
    """The function to time for pass `name` ("forward" or "train"); `call` runs `net` on `x`."""
    import torch  # here, since programs set its number of threads before it is loaded

    def forward():
        with torch.no_grad():
            call()

    def train():
        net.zero_grad()
        x.grad = None
        call().backward(y_gradient)

    return forward if name == "forward" else train
